import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { joinedSchema, schemaFiles } from '../../../scripts/schema/joined.ts'
import { MATCHES } from '../../../src/table/operate/messages/dead-letters.ts'
import { tableStatements } from '../../support/plans/table-statements.ts'
import { headOf, objectsOf, referencesOf } from '../../support/schema-files.ts'
import { groupStatements, sqlFunctions } from '../../support/twins/texts.ts'
import { describedColumns, viewColumns } from '../../support/view-columns.ts'

const FILES = schemaFiles()

test.for([
  ['migrations/0001_sluice.sql', 'sql'],
  ['src/table/schema-build.ts', 'source'],
] as const)('%s is what the files of schema/ give: npm run build:schema writes it', ([file, part]) => {
  const text = readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')
  expect(text === joinedSchema()[part], `expected ${file} as npm run build:schema writes it`).toBe(true)
})

describe('schema/', () => {
  const objects = FILES.flatMap(({ name, sql }) => objectsOf(sql).map((object) => ({ file: name, ...object })))

  test('defines each table, view and function once', () => {
    const names = objects.map(({ kind, name }) => `${kind} ${name}`)
    expect(names.length).toBeGreaterThan(250)
    expect(names.filter((name, at) => names.indexOf(name) < at)).toEqual([])
    expect(FILES.filter(({ sql }) => /ADD COLUMN|OR REPLACE/.test(sql))).toEqual([])
  })

  test('refers in each object only to what stands before it', () => {
    const order = new Map(objects.map(({ key }, at) => [key, at]))
    const forward = objects.flatMap(({ file, key, text }, at) =>
      referencesOf(text, order)
        .filter((reference) => (order.get(reference) ?? -1) > at)
        .map((reference) => `${file}: ${key} -> ${reference}`),
    )
    expect(forward).toEqual([])
    const references = objects.reduce((sum, { text }) => sum + referencesOf(text, order).length, 0)
    expect(references).toBeGreaterThan(700)
  })

  // A description of a column that is not there fails the migration.
  test('describes each view, and each of its columns, once', () => {
    const sql = FILES.map((file) => file.sql).join('\n')
    const described = describedColumns(sql)
    const columns = viewColumns(sql)
    expect(columns.size).toBeGreaterThan(13)
    expect([...described.keys()].toSorted()).toEqual([...columns.keys()].toSorted())
    for (const [view, names] of columns)
      expect(described.get(view)?.toSorted(), `sluice.${view}`).toEqual(['*', ...names].toSorted())
  })

  test.each(FILES)('$name begins with its purpose, and with its public functions and views', ({ name, sql }) => {
    const head = headOf(sql)
    expect(head.purpose, name).toMatch(/^[A-Z].*\.$/)
    const listed = objects.filter(({ file, isPublic }) => file === name && isPublic)
    expect(head.functions).toEqual(listed.filter(({ kind }) => kind === 'function').map((made) => made.name))
    expect(head.views).toEqual(listed.filter(({ kind }) => kind === 'view').map((made) => made.name))
  })

  test.each(FILES)('$name has at most 400 lines', ({ sql }) => {
    expect(sql.split('\n').length).toBeLessThanOrEqual(401)
  })

  // With standard_conforming_strings = off it escapes: '\s' is s.
  test.each(FILES)('$name has no backslash in a string without E', ({ sql }) => {
    const tokens = sql.matchAll(/--[^\n]*|"[^"]*"|\bE'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'/gs)
    const plain = [...tokens].map(([token]) => token).filter((token) => token.startsWith("'"))
    expect(plain.filter((token) => token.includes('\\'))).toEqual([])
  })
})

test('the statements of the library call functions of schema/, each in its schema', async () => {
  const functions = FILES.flatMap(({ sql }) => objectsOf(sql)).filter(({ kind }) => kind === 'function')
  const texts = [...(await tableStatements()), ...(await groupStatements())].map(({ text }) => text)
  const called = texts.flatMap((text) => [...text.matchAll(/\bsluice(?:_private)?\.\w+(?=\()/g)].map(([name]) => name))
  expect(new Set(called).size).toBeGreaterThan(75)
  expect(called.filter((name) => !functions.some((made) => made.name === name))).toEqual([])
})

test('a redrive by SQL means the dead letters that the library means', () => {
  const parameters = ['queue', 'ids', 'type', 'died_before', 'died_after', 'tenant', 'reason', 'error']
  const ofLibrary = MATCHES.replaceAll(
    /timestamptz 'epoch' \+ \$(\d)::bigint::double precision \* interval '1 microsecond'/g,
    '$$$1::',
  )
    .replaceAll(/\$(\d)::[\w[\]]*/g, (_, n) => parameters[Number(n) - 1] ?? '')
    .replace('queue IS NULL OR ', '')
  const body = sqlFunctions().get('dead_matching')?.body ?? ''
  const conditions = (text: string) => text.split(/\bAND\b/).map((part) => part.replaceAll(/[\s()]/g, ''))
  const [, ofSchema = ''] = /WHERE(.*)\);/s.exec(body) ?? []
  expect(conditions(ofSchema)).toHaveLength(8)
  expect(conditions(ofSchema)).toEqual(conditions(ofLibrary))
})
