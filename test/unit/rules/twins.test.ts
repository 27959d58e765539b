import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { MODES } from '../../../faults/run/modes.ts'
import { scenariosOf } from '../../../faults/run/run-cells.ts'
import { SCENARIOS } from '../../../faults/scenarios/index.ts'
import { libraryOf } from '../../../faults/scenarios/rolling-upgrade.ts'
import { applyEdits } from '../../../faults/twins/apply-edits.ts'
import { SCHEMA_VERSION } from '../../../src/table/schema.ts'
import { tableStatements } from '../../support/plans/table-statements.ts'
import * as FUNCTIONS from '../../support/twins/functions.ts'
import * as STATEMENTS from '../../support/twins/statements.ts'
import { groupStatements, plain, SOME_GROUP, sqlFunctions } from '../../support/twins/texts.ts'

// A twin replaces texts of the source. Renamed or written anew, such a text would otherwise be missed only where its twin
// runs, half an hour later. So `npm run check` runs this file.

const scenarios = MODES.flatMap((mode) => scenariosOf(mode, SCENARIOS))
const twins = scenarios.flatMap(({ twin }) => twin ?? [])
const edited = [...twins, ...scenarios.flatMap(({ workers }) => workers ?? [])].flatMap(({ edits }) => edits ?? [])
const library = [...edited, ...libraryOf(SCHEMA_VERSION + 1)]
const files = [...new Set(library.map(({ file }) => file))]

test.each(files)('what scenarios change in src/%s stands there once', (file) => {
  const source = read(`src/${file}`)
  for (const edit of library.filter((known) => known.file === file)) {
    expect(applyEdits(source, [edit])).not.toBe(source)
    // A twin that fails because it names what is gone would look like one that is caught.
    const missing = [...edit.to.matchAll(/this\.(#\w+)/g)].filter(([, name = '']) => !source.includes(` ${name}`))
    expect(missing.map(([used]) => used)).toEqual([])
  }
})

test('functions that scenarios replace are there, with these parameters', () => {
  const functions = sqlFunctions()
  const replaced = twins.flatMap(({ sql = '' }) => [
    ...sql.matchAll(/REPLACE FUNCTION sluice(?:_private)?\.(\w+)\((.*?)\) RETURNS/g),
  ])
  expect(replaced.length).toBeGreaterThan(5)
  for (const [, name = '', parameters = ''] of replaced)
    expect(functions.get(name)?.parameters, `sluice.${name}`).toBe(plain(parameters))
})

test('what tests change in functions stands there', () => {
  const functions = sqlFunctions()
  const edits = Object.values(FUNCTIONS).flatMap((made) => ('name' in made ? made : Object.values(made).flat()))
  expect(edits.length).toBeGreaterThan(25)
  const stale = edits.filter(({ name, from }) => functions.get(name)?.body.includes(from) !== true)
  expect(stale).toEqual([])
})

test('what tests change in statements stands there', async () => {
  const made = [...(await tableStatements()), ...(await groupStatements())]
  const texts = new Map(made.map(({ name, text }) => [name, text]))
  const rewrites = Object.values(STATEMENTS).flatMap((twin) => (typeof twin === 'function' ? twin(SOME_GROUP) : twin))
  expect(rewrites.length).toBeGreaterThan(40)
  const stale = rewrites.filter(({ statement, from }) => texts.get(`sluice_${statement}`)?.includes(from) !== true)
  expect(stale).toEqual([])
})

/** Where they are found by the tests above. */
const PLACES = ['test/support/twins/statements.ts', 'test/support/twins/functions.ts']

test('tests have their twins where this file finds them', () => {
  const folder = new URL('../../', import.meta.url)
  const tests = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.includes('node_modules'),
  )
  const elsewhere = tests
    .map((file) => `test/${file.replaceAll('\\', '/')}`)
    .filter((file) => !PLACES.includes(file) && file !== 'test/unit/rules/twins.test.ts')
    .filter((file) => /\bfrom: ['"`][^'"`]*['"`],?\s+to: |pg_get_functiondef\(/.test(read(file)))
  expect(elsewhere, `expected twins in ${PLACES.join(' and ')}`).toEqual(['test/support/rows/edited-functions.ts'])
})

function read(file: string): string {
  return readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')
}
