import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { schemaFiles } from '../../../scripts/schema/joined.ts'

const ROOT = join(import.meta.dirname, '../../..')
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

/** The words that the functions give: the first argument of sluice_private.say, also where it is a CASE. */
function wordsOfSchema(): readonly string[] {
  const sql = schemaFiles()
    .map((file) => file.sql)
    .join('\n')
  const arguments_ = [...sql.matchAll(/sluice_private\.say\(\s*('\w+'|CASE .*? END),/gs)].map(([, first = '']) => first)
  return arguments_.flatMap((first) => [...first.matchAll(/(?:^|THEN |ELSE )'(\w+)'/g)].map(([, word = '']) => word))
}

const unique = (words: readonly string[]) => [...new Set(words)].toSorted()

test('docs/reference/explain.md has every reason that the functions give, and no other', () => {
  const cells = [...read('docs/reference/explain.md').matchAll(/^\| (`\w+`(?:, `\w+`)*) \|/gm)].map(
    ([, cell = '']) => cell,
  )
  const listed = cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, word = '']) => word))
  expect(listed.length).toBeGreaterThan(40)
  expect(unique(listed)).toEqual(unique(wordsOfSchema()))
})

test('ReasonWord has every reason that the functions give, and no other', () => {
  const [, union = ''] = /export type ReasonWord =\n(.*?)\n\n/s.exec(read('src/table/operate/explanations.ts')) ?? []
  expect(unique([...union.matchAll(/'(\w+)'/g)].map(([, word = '']) => word))).toEqual(unique(wordsOfSchema()))
})
