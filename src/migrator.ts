import { CompiledQuery, Kysely, type MigrationLockOptions, PostgresAdapter, PostgresDialect, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import pg from 'pg'
import { OWN_PARSERS } from './connection/own-parsers.ts'
import { SilenceWatch } from './connection/silence.ts'
import { Sockets } from './connection/sockets.ts'
import { errorText, SluiceError } from './errors.ts'
import { MIGRATIONS } from './sql-files.ts'
import {
  assertServed,
  BOUND_COMMIT,
  BOUND_MIGRATION,
  LOCK_MIGRATIONS,
  PIN_SEARCH_PATH,
  readSchema,
  SCHEMA_VERSION,
} from './table/schema.ts'
import { readSession } from './table/session.ts'
import type { Execute } from './table/statement.ts'

/** What a migration has done. */
export interface MigrateResult {
  /** The names of the migrations that this call ran, in order; empty if there was nothing to do. */
  readonly applied: readonly string[]
  /** The schema's version now. */
  readonly version: number
}

/** Runs the migrations that the database does not have yet, by Kysely's migrator. */
export async function runMigrations(connection: string | pg.ClientConfig, silenceMs: number): Promise<MigrateResult> {
  const given = typeof connection === 'string' ? { connectionString: connection } : connection
  const config = { connectionTimeoutMillis: 10_000, keepAlive: true, ...given, types: OWN_PARSERS }
  const sockets = new Sockets()
  const pool = new pg.Pool({ ...sockets.of(config), max: 1 })
  // A connection that breaks while idle fails the next statement as well, and that error is the one to report.
  pool.on('error', () => undefined)
  let watch: SilenceWatch | undefined
  let lost: unknown
  pool.on('connect', (client) => {
    Reflect.set(client, 'binary', false)
    client.on('error', (error) => {
      lost ??= error
    })
    watch = new SilenceWatch(client, config, silenceMs)
  })
  try {
    await assertReachable(pool)
    const db = new Kysely<unknown>({ dialect: new Dialect({ pool }) })
    return await db.transaction().execute((transaction) => migrateInside(transaction, (pid) => watch?.servedBy(pid)))
  } catch (error) {
    if (lost !== undefined) throw lostConnection(lost)
    throw error instanceof SluiceError ? error : failed('The migration', error)
  } finally {
    watch?.stop()
    await pool.end()
    await sockets.closed()
  }
}

async function migrateInside(db: Kysely<unknown>, servedBy: (pid: number) => void): Promise<MigrateResult> {
  const execute: Execute = async (query, params) =>
    (await db.executeQuery<Record<string, unknown>>(CompiledQuery.raw(query.text, [...params]))).rows
  await execute(PIN_SEARCH_PATH, [])
  await execute(BOUND_MIGRATION, [])
  servedBy((await readSession(execute, '')).pid)
  await execute(LOCK_MIGRATIONS, [])
  const before = await readSchema(execute)
  if (before !== undefined && before.version > SCHEMA_VERSION) {
    assertServed(before)
    return { applied: [], version: before.version }
  }
  const applied = await runMigrator(db)
  const after = await readSchema(execute)
  await execute(BOUND_COMMIT, [])
  return { applied, version: after?.version ?? 0 }
}

async function runMigrator(db: Kysely<unknown>): Promise<readonly string[]> {
  const { error, results = [] } = await new Migrator({
    db,
    provider: { getMigrations: async () => migrations() },
    migrationTableSchema: 'sluice',
    migrationTableName: 'migration',
    migrationLockTableName: 'migration_lock',
  }).migrateToLatest()
  if (error !== undefined) {
    const culprit = results.find((result) => result.status === 'Error')
    throw failed(culprit ? `Migration ${culprit.migrationName}` : 'The migration', error)
  }
  return results.map((result) => result.migrationName)
}

function migrations(): Record<string, Migration> {
  return Object.fromEntries(
    MIGRATIONS.map(({ name, sql: text }) => [name, { up: async (db) => void (await sql.raw(text).execute(db)) }]),
  )
}

async function assertReachable(pool: pg.Pool): Promise<void> {
  try {
    const client = await pool.connect()
    client.release()
  } catch (cause) {
    throw new SluiceError(
      'UNREACHABLE',
      `Cannot connect to PostgreSQL: ${errorText(cause)}. Check the connection settings, for example DATABASE_URL`,
      { cause },
    )
  }
}

/** Nobody knows whether a COMMIT on the way took effect. */
function lostConnection(cause: unknown): SluiceError {
  const sentence = `The migration lost its connection: ${errorText(cause)}. Run it again: what has been applied is left alone`
  return new SluiceError('UNREACHABLE', sentence, { cause })
}

function failed(what: string, cause: unknown): SluiceError {
  return new SluiceError('TRANSACTION_FAILED', `${what} failed and was rolled back: ${errorText(cause)}`, { cause })
}

class Dialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new Adapter()
  }
}

/**
 * Every Kysely migrator locks the same advisory lock, so an application that calls {@link migrate} from inside a
 * Kysely migration of its own would wait for itself. Our own lock is taken before the migrator starts.
 */
class Adapter extends PostgresAdapter {
  override async acquireMigrationLock(_db: Kysely<unknown>, _options: MigrationLockOptions): Promise<void> {}
  override async releaseMigrationLock(_db: Kysely<unknown>, _options: MigrationLockOptions): Promise<void> {}
}
