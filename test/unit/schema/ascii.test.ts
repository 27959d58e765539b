import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { migrationSql } from '../../../src/migrate/migrate.ts'
import { tableStatements } from '../../support/plans/table-statements.ts'

// A database in another encoding refuses a statement with a character that it lacks, be it in a comment.

const NOT_ASCII = /.*[^\0-\x7f].*/g

test('all SQL is ASCII: migrations, roles, and the statements', async () => {
  const folder = new URL('../../../migrations/', import.meta.url)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.sql'))
  const strings = [
    ...files.map((file) => readFileSync(new URL(file, folder), 'utf8')),
    ...migrationSql().map(({ sql }) => sql),
    ...(await tableStatements()).map(({ text }) => text),
  ]
  expect(files).toContain('roles/roles.sql')
  expect(strings.flatMap((text) => text.match(NOT_ASCII) ?? [])).toEqual([])
})
