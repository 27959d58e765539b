import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { Kysely, PostgresDialect } from 'kysely'
import { Migrator } from 'kysely/migration'
import pg from 'pg'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { executeOn as executeOnClient } from '../../../src/connection/open-client.ts'
import type { SluiceError } from '../../../src/errors.ts'
import { checkMigration } from '../../../src/migrate/check.ts'
import { type MigrateResult, migrate, migrationSql } from '../../../src/migrate/migrate.ts'
import { MIGRATION_LIMITS, migrateWithin } from '../../../src/migrate/migrator.ts'
import { checkSchema, SCHEMA_VERSION } from '../../../src/table/schema.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { newWorkerId, recordBatches, registerWorker } from '../../../src/table/worker/worker.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { put } from '../../support/rows/claim-session.ts'
import { createTestDatabase, type TestDatabase, type TestDatabaseOptions } from '../../support/servers/database.ts'
import { startRestartableServer } from '../../support/servers/restartable-server.ts'
import { waitFor } from '../../support/wait.ts'

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

  test('is not bounded by a transaction_timeout of the database', async () => {
    if (inject('serverVersion') < 170_000) return
    const database = await fresh({ migrated: false })
    await database.sql('CREATE TABLE public.noted (bound text)')
    await database.sql(`CREATE FUNCTION public.note() RETURNS event_trigger LANGUAGE plpgsql AS
      $$ BEGIN INSERT INTO public.noted VALUES (current_setting('transaction_timeout')); END $$`)
    await database.sql(`CREATE EVENT TRIGGER note ON ddl_command_start WHEN TAG IN ('CREATE TABLE')
      EXECUTE FUNCTION public.note()`)
    await database.sql(
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET transaction_timeout = ''1h''', current_database()); END $$`,
    )
    await migrate(database.url)
    expect(await database.sql('SELECT DISTINCT bound FROM public.noted')).toEqual([{ bound: '0' }])
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

  test('says what to do with a schema of before the first release, and changes nothing', async () => {
    const database = await fresh({ migrated: false })
    await database.sql(`
      CREATE SCHEMA sluice;
      CREATE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
      LANGUAGE sql IMMUTABLE AS 'SELECT 11, 1'`)
    const refused = { code: 'SCHEMA_UNRELEASED', message: expect.stringContaining('`DROP SCHEMA sluice CASCADE`') }
    await expect(migrate(database.url)).rejects.toMatchObject(refused)
    await expect(checkSchema(executeOn(database))).rejects.toMatchObject(refused)
    await database.sql('DROP SCHEMA sluice CASCADE')
    expect(await migrate(database.url)).toEqual({ applied: names, version: SCHEMA_VERSION })
  })

  test.for([
    ['of another build', 'build 0123456789ab', (database: TestDatabase) => pretend(database, OTHER_BUILD)],
    [
      'that has no build',
      'one without a build',
      (database: TestDatabase) =>
        database.sql(`
          DROP FUNCTION sluice.schema_version();
          CREATE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
          LANGUAGE sql IMMUTABLE AS 'SELECT ${SCHEMA_VERSION}, 1'`),
    ],
  ] as const)('says what to do with a schema of this version %s, and changes nothing', async ([, words, make]) => {
    const database = await fresh()
    await make(database)
    const remedy =
      'Install the build of the package that migrated it\\. Or, if nothing in it is needed, .*`DROP SCHEMA sluice, sluice_private CASCADE`, and run `npx sluice migrate`'
    const refused = { code: 'SCHEMA_UNRELEASED', message: expect.stringMatching(`received ${words}.*${remedy}`) }
    await expect(migrate(database.url)).rejects.toMatchObject(refused)
    await expect(checkMigration(database.url)).rejects.toMatchObject(refused)
    await expect(checkSchema(executeOn(database))).rejects.toMatchObject(refused)
    await database.sql('DROP SCHEMA sluice, sluice_private CASCADE')
    expect(await migrate(database.url)).toEqual({ applied: names, version: SCHEMA_VERSION })
  })

  test('says what to do where schema "sluice" was dropped alone', async () => {
    const database = await fresh()
    await database.sql('DROP SCHEMA sluice CASCADE')
    await expect(migrate(database.url)).rejects.toMatchObject({
      code: 'TRANSACTION_FAILED',
      message: expect.stringContaining('`DROP SCHEMA sluice_private CASCADE`'),
    })
    await database.sql('DROP SCHEMA sluice_private CASCADE')
    expect(await migrate(database.url)).toEqual({ applied: names, version: SCHEMA_VERSION })
  })

  test('says that the server cannot be reached, without the password', async () => {
    const error = await migrate('postgres://me:secret@127.0.0.1:1/app').catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'UNREACHABLE', message: expect.stringContaining('127.0.0.1:1') })
    expect(String(error)).not.toContain('secret')
  })
})

describe('migrate without the rights', () => {
  test('to make the schema says so, and what to grant', async () => {
    const database = await fresh({ migrated: false })
    const role = await createRole(database)
    const error = await migrate(role.url).catch((thrown: unknown) => thrown)
    const name = new URL(database.url).pathname.slice(1)
    expect(error).toMatchObject({
      code: 'TRANSACTION_FAILED',
      message: expect.stringMatching(
        `permission denied for database ${name}.*GRANT CREATE ON DATABASE ${name} TO ${role.name}$`,
      ),
      cause: expect.objectContaining({ code: '42501' }),
    })
    await database.sql(`GRANT CREATE ON DATABASE ${name} TO ${role.name}`)
    expect(await migrate(role.url)).toEqual({ applied: names, version: SCHEMA_VERSION })
  })

  test('to the schema says whose it is', async () => {
    const database = await fresh({ migrated: false })
    const [role, owner] = [await createRole(database), await createRole(database)]
    await database.sql(`CREATE SCHEMA sluice AUTHORIZATION ${owner.name}; GRANT USAGE ON SCHEMA sluice TO ${role.name}`)
    const error = await migrate(role.url).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({
      code: 'TRANSACTION_FAILED',
      message: expect.stringMatching(
        `permission denied for schema sluice.*belongs to ${owner.name}: connect as that role`,
      ),
    })
  })

  test('succeeds when there is nothing to do', async () => {
    const database = await fresh()
    const role = await createRole(database)
    await database.sql(`GRANT USAGE ON SCHEMA sluice TO ${role.name}`)
    expect(await migrate(role.url)).toEqual({ applied: [], version: SCHEMA_VERSION })
  })
})

describe('a check before a migration', () => {
  test('of an empty database names the migrations, and what the role lacks for them', async () => {
    const database = await fresh({ migrated: false })
    const role = await createRole(database)
    const wanted = { version: null, wanted: SCHEMA_VERSION, pending: names, blockedBy: [], versions: [] }
    expect(await checkMigration(database.url)).toEqual({ ...wanted, ready: true, problem: null })
    const problem = expect.stringMatching(`GRANT CREATE ON DATABASE .* TO ${role.name}$`)
    expect(await checkMigration(role.url)).toEqual({ ...wanted, ready: false, problem })
    expect(await database.sql(`SELECT FROM pg_namespace WHERE nspname = 'sluice'`)).toEqual([])
  })

  test('of an empty database says that transactions are read-only', async () => {
    const database = await fresh({ migrated: false })
    await database.sql(
      `ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET default_transaction_read_only = on`,
    )
    const problem = expect.stringContaining('look for default_transaction_read_only')
    expect(await checkMigration(database.url)).toMatchObject({ ready: false, version: null, pending: names, problem })
    await expect(migrate(database.url)).rejects.toThrow('read-only')
    expect(await runCli(['migrate', '--check'], { DATABASE_URL: database.url })).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('It would fail. Transactions are read-only here'),
    })
  })

  test('of a current one says which versions run, and how much they have in flight', async () => {
    const database = await fresh()
    const id = await newWorkerId(executeOnClient(database.pool))
    const worker = new pg.Client(database.url)
    await worker.connect()
    onTestFinished(() => worker.end())
    const execute = executeOnClient(worker)
    await registerWorker(execute, id, { name: 'w', host: 'h', pid: 1, version: '9.9.9' }, ['mails'])
    const messageIds = await put(database, 'mails', [{}, {}])
    const batch = { id: 1, queue: 'mails', messageIds, attempts: [0, 0] }
    await recordBatches(execute, id, [], [batch])
    expect(await checkMigration(database.url)).toEqual({
      ready: true,
      version: SCHEMA_VERSION,
      wanted: SCHEMA_VERSION,
      pending: [],
      problem: null,
      blockedBy: [],
      versions: [{ version: '9.9.9', workers: 1, inFlight: 2, longestMs: expect.any(Number) }],
    })
    const role = await createRole(database)
    await database.sql(`GRANT USAGE ON SCHEMA sluice TO ${role.name}`)
    expect(await checkMigration(role.url)).toMatchObject({ ready: true, versions: null })
  })

  test('of an older one names whoever has kept its tables locked for long', async () => {
    const database = await fresh()
    await pretend(database, { version: 0, oldestClient: 0 })
    const client = new pg.Client({ connectionString: database.url, application_name: 'report' })
    await client.connect()
    onTestFinished(() => client.end())
    await client.query('BEGIN')
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid FROM sluice.message')
    expect(rows).toEqual([])
    const check = () => checkMigration(database.url)
    const found = await waitFor(async () => ((await check()).ready ? undefined : check()), {
      what: 'its transaction to be open for five seconds',
    })
    expect(found).toMatchObject({ ready: false, version: 0, pending: names, problem: null })
    expect(found.blockedBy).toMatchObject([{ application: 'report', state: 'idle in transaction' }])
    expect(found.blockedBy[0]?.openMs).toBeGreaterThan(5_000)
    const cli = await runCli(['migrate', '--check'], { DATABASE_URL: database.url })
    expect(cli).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^To run: 0001_sluice .*\nIt would wait for session/),
    })
    await client.query('COMMIT')
    expect(await check()).toMatchObject({ ready: true, blockedBy: [] })
    const json = await runCli(['migrate', '--check', '--json'], { DATABASE_URL: database.url })
    expect([json.code, JSON.parse(json.stdout)]).toEqual([0, expect.objectContaining({ ready: true, pending: names })])
  })

  test('names the session that runs another migration, however short', async () => {
    const database = await fresh({ migrated: false })
    const other = await session(database, 'another migration')
    await other.query('BEGIN; SELECT pg_advisory_xact_lock(746500, 0)')
    expect(await checkMigration(database.url)).toMatchObject({
      ready: false,
      problem: null,
      blockedBy: [{ application: 'another migration', pid: await pidOf(other) }],
    })
    await other.query('ROLLBACK')
    expect(await checkMigration(database.url)).toMatchObject({ ready: true, blockedBy: [] })
  })

  test('names the session that has created the schema and not committed it, and creates none itself', async () => {
    const database = await fresh({ migrated: false })
    const other = await session(database, 'psql')
    await other.query('BEGIN; CREATE SCHEMA sluice')
    expect(await checkMigration(database.url)).toMatchObject({
      ready: false,
      blockedBy: [{ application: 'psql', pid: await pidOf(other) }],
    })
    await other.query('ROLLBACK')
    expect(await checkMigration(database.url)).toMatchObject({ ready: true, blockedBy: [] })
    expect(await database.sql(`SELECT FROM pg_namespace WHERE nspname = 'sluice'`)).toEqual([])
  })

  test('names who has locked a table against readers, and does not wait for the end of that', async () => {
    const database = await fresh()
    const other = await session(database, 'VACUUM FULL')
    await other.query('BEGIN; LOCK TABLE sluice.worker IN ACCESS EXCLUSIVE MODE')
    const { code, stdout } = await runCli(['migrate', '--check'], { DATABASE_URL: database.url })
    expect(code).toBe(1)
    expect(stdout).toContain(`session ${await pidOf(other)} (postgres, VACUUM FULL)`)
    expect(await checkMigration(database.url)).toMatchObject({ ready: false, versions: null, pending: [] })
    await other.query('ROLLBACK')
    expect(await checkMigration(database.url)).toMatchObject({ ready: true, versions: [] })
  })

  test('counts a prepared transaction only if it has locked something of the schema', async () => {
    const server = await startRestartableServer({ max_prepared_transactions: 3 })
    await pretend(server, { version: 0, oldestClient: 0 })
    await server.sql('CREATE TABLE mine (n integer)')
    const client = new pg.Client(server.url)
    await client.connect()
    onTestFinished(() => client.end())
    await client.query(`BEGIN; INSERT INTO mine VALUES (1); PREPARE TRANSACTION 'elsewhere'`)
    await client.query(`BEGIN; LOCK TABLE sluice.message; PREPARE TRANSACTION 'here'`)
    const found = await waitFor(
      async () => {
        const check = await checkMigration(server.url)
        return check.blockedBy.length > 0 ? check : undefined
      },
      { what: 'it to be five seconds old' },
    )
    expect(found).toMatchObject({ ready: false, blockedBy: [{ pid: 0, application: 'here', state: 'prepared' }] })
    await server.sql(`ROLLBACK PREPARED 'here'`)
    expect(await checkMigration(server.url)).toMatchObject({ ready: true, blockedBy: [] })
    await server.sql(`ROLLBACK PREPARED 'elsewhere'`)
  })

  test('of one that no longer serves this package says to upgrade it', async () => {
    const database = await fresh()
    await pretend(database, { version: 99, oldestClient: 99 })
    const problem = expect.stringContaining('Upgrade the package')
    expect(await checkMigration(database.url)).toMatchObject({ ready: false, version: 99, pending: [], problem })
  })
})

describe('migrate that meets a lock', () => {
  const impatient = { ...MIGRATION_LIMITS, lockWaitsMs: [10, 60_000] }

  test('gives way, says so, and tries again', async () => {
    const database = await fresh({ migrated: false })
    const holder = await lockedMigrations(database)
    const delays: SluiceEvent[] = []
    const migrated = migrateWithin(impatient, database.url, (event) => {
      delays.push(event)
      void holder.query('COMMIT')
    })
    expect(await migrated).toEqual({ applied: names, version: SCHEMA_VERSION })
    expect(delays).toEqual([
      {
        kind: 'migration.delayed',
        attempt: 1,
        attempts: 2,
        retryInMs: expect.any(Number),
        error: expect.objectContaining({ cause: expect.objectContaining({ code: '55P03' }) }),
      },
    ])
  })

  test('tries again after a deadlock', async () => {
    const database = await fresh({ migrated: false })
    const holder = await lockedMigrations(database)
    // The other side does not look for a deadlock before an hour has passed.
    await holder.query(`SET LOCAL deadlock_timeout = '1h'`)
    const codes: unknown[] = []
    const migrated = migrateWithin({ ...impatient, lockWaitsMs: [60_000, 60_000] }, database.url, (event) => {
      if (event.kind === 'migration.delayed') codes.push(event.error.cause)
    })
    await untilWaiting(database, 1)
    await holder.query('SELECT pg_advisory_xact_lock(746500, 0)')
    await holder.query('COMMIT')
    expect(await migrated).toEqual({ applied: names, version: SCHEMA_VERSION })
    expect(codes).toEqual([expect.objectContaining({ code: '40P01' })])
  })

  test('fails after the last attempt, with what to do', async () => {
    const database = await fresh({ migrated: false })
    await lockedMigrations(database)
    await expect(migrateWithin({ ...impatient, lockWaitsMs: [10, 10] }, database.url)).rejects.toMatchObject({
      code: 'TRANSACTION_FAILED',
      message: expect.stringMatching(/lock timeout.*End the transactions that hold the tables/),
    })
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
  test('says in which database the schema is missing, and how to install it', async () => {
    const database = await fresh({ migrated: false })
    const { username, hostname, port, pathname } = new URL(database.url)
    const where = `Database "${pathname.slice(1)}" on ${hostname}, port ${port}, as user "${username}",`
    const message = `${where} has no schema "sluice". Run \`npx sluice migrate\` for it, or correct the connection settings`
    await expect(checkSchema(executeOn(database))).rejects.toMatchObject({ code: 'SCHEMA_MISSING', message })
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
    const old: Execute = async () => [{ version_num: 130014, installed: 0, released: 0 }]
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

/** Somebody who may connect, and nothing else. */
async function createRole(database: TestDatabase): Promise<{ readonly name: string; readonly url: string }> {
  const name = `sluice_test_${randomBytes(6).toString('hex')}`
  const password = randomBytes(12).toString('hex')
  await database.sql(`CREATE ROLE ${name} LOGIN PASSWORD '${password}'`)
  onTestFinished(async () => {
    await database.sql(`DROP OWNED BY ${name} CASCADE`)
    await database.sql(`DROP ROLE ${name}`)
  })
  return { name, url: Object.assign(new URL(database.url), { username: name, password }).href }
}

/** A table that every migration reads, locked by somebody else until COMMIT. */
async function lockedMigrations(database: TestDatabase): Promise<pg.PoolClient> {
  await database.sql(`
    CREATE SCHEMA sluice;
    CREATE TABLE sluice.migration (name varchar(255) PRIMARY KEY, "timestamp" varchar(255) NOT NULL)`)
  const holder = await database.pool.connect()
  onTestFinished(() => holder.release(true))
  await holder.query('BEGIN')
  await holder.query('LOCK TABLE sluice.migration')
  return holder
}

/** A session of somebody else. */
async function session(database: TestDatabase, application: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url, application_name: application })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

async function pidOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  return rows[0]!.pid
}

async function untilWaiting(database: TestDatabase, sessions: number): Promise<void> {
  const waiting = async () => {
    const rows = await database.sql(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    )
    return rows.length === sessions
  }
  await waitFor(waiting, { what: `${sessions} session(s) to wait for a lock` })
}

const OTHER_BUILD = { version: SCHEMA_VERSION, oldestClient: SCHEMA_VERSION, build: '0123456789ab' }

async function pretend(
  database: { sql(text: string): Promise<unknown> },
  { version, oldestClient, build = '' }: { version: number; oldestClient: number; build?: string },
): Promise<void> {
  await database.sql(`
    CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer, OUT build text)
    LANGUAGE sql IMMUTABLE AS $$SELECT ${version}, ${oldestClient}, '${build}'$$`)
}

async function migrateInProcess(url: string): Promise<MigrateResult> {
  const program =
    'const { migrate } = await import(process.argv[1]); console.log(JSON.stringify(await migrate(process.argv[2])))'
  const module = new URL('../../../src/migrate/migrate.ts', import.meta.url).href
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, module, url])
  return JSON.parse(stdout) as MigrateResult
}
