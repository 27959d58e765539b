import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Kysely, PostgresDialect } from 'kysely'
import { Migrator } from 'kysely/migration'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { SluiceError } from '../../src/errors.ts'
import { type MigrateResult, migrate, migrationSql } from '../../src/migrate.ts'
import { checkSchema, SCHEMA_VERSION } from '../../src/table/schema.ts'
import type { Execute } from '../../src/table/statement.ts'
import { createTestDatabase, type TestDatabase, type TestDatabaseOptions } from '../support/database.ts'

const names = migrationSql().map((migration) => migration.name)

describe('migrate', () => {
  test('brings an empty database to the version of the library', async () => {
    const database = await fresh({ migrated: false })
    expect(await migrate(database.url)).toEqual({ applied: names, version: SCHEMA_VERSION })
    await checkSchema(executeOn(database))
  })

  test('finds nothing to do the second time', async () => {
    const database = await fresh()
    expect(await migrate({ connectionString: database.url })).toEqual({ applied: [], version: SCHEMA_VERSION })
  })

  test('run by three processes at once, migrates once and succeeds in all', async () => {
    const database = await fresh({ migrated: false })
    const results = await Promise.all([1, 2, 3].map(() => migrateInProcess(database.url)))
    expect(results.map((result) => result.version)).toEqual([SCHEMA_VERSION, SCHEMA_VERSION, SCHEMA_VERSION])
    expect(results.flatMap((result) => result.applied)).toEqual(names)
  })

  test('can be called from inside a Kysely migration of the application', async () => {
    const database = await fresh({ migrated: false })
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: database.pool }) })
    const up = async () => void (await migrate(database.url))
    const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ queue: { up } }) } })
    const { error } = await migrator.migrateToLatest()
    expect(error).toBeUndefined()
    await checkSchema(executeOn(database))
  })

  test('leaves a newer schema that still serves this library as it is', async () => {
    const database = await fresh()
    await pretend(database, { version: SCHEMA_VERSION + 1, oldestClient: SCHEMA_VERSION })
    await checkSchema(executeOn(database))
    expect(await migrate(database.url)).toEqual({ applied: [], version: SCHEMA_VERSION + 1 })
  })

  test('refuses a newer schema that no longer serves this library', async () => {
    const database = await fresh()
    await pretend(database, { version: SCHEMA_VERSION + 1, oldestClient: SCHEMA_VERSION + 1 })
    await expect(migrate(database.url)).rejects.toMatchObject({ code: 'SCHEMA_TOO_NEW' })
  })

  test('changes nothing when a migration fails, and gives the reason as the cause', async () => {
    const database = await fresh({ migrated: false })
    await database.sql('CREATE SCHEMA sluice')
    await database.sql('CREATE TABLE sluice.message (mine integer)')
    const error = await migrate(database.url).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'TRANSACTION_FAILED', message: expect.stringContaining(names[0] ?? '') })
    expect((error as SluiceError).cause).toBeInstanceOf(pg.DatabaseError)
    const tables = await database.sql(`SELECT tablename FROM pg_tables WHERE schemaname = 'sluice'`)
    expect(tables).toEqual([{ tablename: 'message' }])
  })

  test('says that the server cannot be reached, without the password', async () => {
    const error = await migrate('postgres://me:secret@127.0.0.1:1/app').catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'UNREACHABLE', message: expect.stringContaining('127.0.0.1:1') })
    expect(String(error)).not.toContain('secret')
  })
})

describe('migrationSql', () => {
  test('prints what another tool can run, and migrate then knows of it', async () => {
    const database = await fresh({ migrated: false })
    for (const { sql } of migrationSql()) await database.pool.query(sql)
    await checkSchema(executeOn(database))
    expect(await migrate(database.url)).toEqual({ applied: [], version: SCHEMA_VERSION })
  })
})

describe('checkSchema', () => {
  test('says how to install a schema that is missing', async () => {
    const database = await fresh({ migrated: false })
    await expect(checkSchema(executeOn(database))).rejects.toMatchObject({
      code: 'SCHEMA_MISSING',
      message: expect.stringContaining('npx sluice migrate'),
    })
  })

  test('says how to upgrade a schema that is too old', async () => {
    const database = await fresh()
    await pretend(database, { version: SCHEMA_VERSION - 1, oldestClient: 0 })
    await expect(checkSchema(executeOn(database))).rejects.toMatchObject({
      code: 'SCHEMA_TOO_OLD',
      message: expect.stringContaining('npx sluice migrate'),
    })
  })

  test('says to upgrade the package when the schema is too new', async () => {
    const database = await fresh()
    await pretend(database, { version: SCHEMA_VERSION + 1, oldestClient: SCHEMA_VERSION + 1 })
    await expect(checkSchema(executeOn(database))).rejects.toMatchObject({
      code: 'SCHEMA_TOO_NEW',
      message: expect.stringContaining('npm install sluice'),
    })
  })

  test('refuses a server older than PostgreSQL 14', async () => {
    const old: Execute = async () => [{ version_num: 130014, installed: 0 }]
    await expect(checkSchema(old)).rejects.toMatchObject({
      code: 'SERVER_TOO_OLD',
      message: expect.stringContaining('received 13'),
    })
  })
})

async function fresh(options?: TestDatabaseOptions): Promise<TestDatabase> {
  const database = await createTestDatabase(options)
  onTestFinished(() => database[Symbol.asyncDispose]())
  return database
}

function executeOn(database: TestDatabase): Execute {
  return (statement, params) => database.sql(statement.text, params)
}

async function pretend(database: TestDatabase, schema: { version: number; oldestClient: number }): Promise<void> {
  await database.sql(`
    CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
    LANGUAGE sql IMMUTABLE AS 'SELECT ${schema.version}, ${schema.oldestClient}'`)
}

async function migrateInProcess(url: string): Promise<MigrateResult> {
  const program =
    'const { migrate } = await import(process.argv[1]); console.log(JSON.stringify(await migrate(process.argv[2])))'
  const module = new URL('../../src/migrate.ts', import.meta.url).href
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, module, url])
  return JSON.parse(stdout) as MigrateResult
}
