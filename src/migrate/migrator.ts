import type { Kysely, MigrationLockOptions, PostgresAdapter } from 'kysely'
import type { Migration } from 'kysely/migration'
import pg from 'pg'
import { kysely } from '../basics/kysely.ts'
import { Backoff } from '../basics/time/backoff.ts'
import { pause } from '../basics/time/pause.ts'
import { SilenceWatch } from '../connection/silence.ts'
import { Sockets } from '../connection/sockets.ts'
import { unreachable } from '../connection/unreachable.ts'
import { errorText, SluiceError } from '../errors.ts'
import { OWN_PARSERS } from '../session/own-parsers.ts'
import {
  assertServed,
  BOUND_COMMIT,
  BOUND_LOCKS,
  BOUND_MIGRATION,
  LOCK_MIGRATIONS,
  PIN_SEARCH_PATH,
  readRights,
  readSchema,
  SCHEMA_VERSION,
} from '../table/schema.ts'
import { readSession } from '../table/session/session.ts'
import type { Execute } from '../table/statement.ts'
import type { Report } from '../telemetry/events.ts'
import { MigrationFailure, metLock } from './failure.ts'
import { migrationFiles } from './sql-files.ts'

const parts = kysely()

/** What a call of `migrate` has done. */
export interface MigrateResult {
  /** The names of the migrations that this call ran, in order; empty if there was nothing to do. */
  readonly applied: readonly string[]
  /** The schema's version now. */
  readonly version: number
}

export interface MigrationLimits {
  /** How long the server may be silent before another connection asks whether it still works. */
  readonly silenceMs: number
  /** How long each attempt waits for a lock. */
  readonly lockWaitsMs: readonly number[]
}

export const MIGRATION_LIMITS: MigrationLimits = {
  silenceMs: 15_000,
  lockWaitsMs: [5_000, 15_000, 45_000, 120_000, 300_000],
}

/** Runs the migrations that the database lacks, with up to as many attempts as there are limits for locks. */
export async function migrateWithin(
  { silenceMs, lockWaitsMs }: MigrationLimits,
  connection: string | pg.ClientConfig,
  report: Report = () => undefined,
): Promise<MigrateResult> {
  const backoff = new Backoff(1_000, 10_000)
  for (const [at, lockWaitMs] of lockWaitsMs.entries()) {
    try {
      return await attempt(connection, silenceMs, lockWaitMs)
    } catch (error) {
      if (!metLock(error) || at === lockWaitsMs.length - 1) throw error
      const retryInMs = backoff.next()
      report({ kind: 'migration.delayed', attempt: at + 1, attempts: lockWaitsMs.length, error, retryInMs })
      await pause(retryInMs)
    }
  }
  throw new TypeError('expected at least one attempt')
}

async function attempt(
  connection: string | pg.ClientConfig,
  silenceMs: number,
  lockWaitMs: number,
): Promise<MigrateResult> {
  const given = typeof connection === 'string' ? { connectionString: connection } : connection
  const config = { connectionTimeoutMillis: 10_000, keepAlive: true, ...given, types: OWN_PARSERS }
  const sockets = new Sockets()
  const pool = new pg.Pool({ ...sockets.of(config), max: 1 })
  // If the connection breaks while it is idle, the next statement fails too, and its error is reported.
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
  const failure = new MigrationFailure()
  try {
    await assertReachable(pool)
    const db = new parts.Kysely<unknown>({ dialect: new Dialect({ pool }), log: failure.log })
    const run: MigrationRun = { lockWaitMs, failure, servedBy: (pid) => watch?.servedBy(pid) }
    return await db.transaction().execute((transaction) => migrateInside(transaction, run))
  } catch (error) {
    if (lost !== undefined) throw lostConnection(lost)
    throw error instanceof SluiceError ? error : failure.toError(error)
  } finally {
    watch?.stop()
    await pool.end()
    await sockets.closed()
  }
}

interface MigrationRun {
  readonly lockWaitMs: number
  readonly failure: MigrationFailure
  readonly servedBy: (pid: number) => void
}

async function migrateInside(
  db: Kysely<unknown>,
  { lockWaitMs, failure, servedBy }: MigrationRun,
): Promise<MigrateResult> {
  const execute: Execute = async (query, params) =>
    (await db.executeQuery<Record<string, unknown>>(parts.CompiledQuery.raw(query.text, [...params]))).rows
  await execute(PIN_SEARCH_PATH, [])
  await execute(BOUND_MIGRATION, [])
  servedBy((await readSession(execute, '')).pid)
  failure.rights = await readRights(execute)
  await execute(LOCK_MIGRATIONS, [])
  await execute(BOUND_LOCKS, [`${lockWaitMs}ms`])
  const before = await readSchema(execute)
  if (before !== undefined && before.version >= SCHEMA_VERSION) {
    assertServed(before)
    return { applied: [], version: before.version }
  }
  const applied = await runMigrator(db, failure)
  const after = await readSchema(execute)
  await execute(BOUND_COMMIT, [])
  return { applied, version: after?.version ?? 0 }
}

async function runMigrator(db: Kysely<unknown>, failure: MigrationFailure): Promise<readonly string[]> {
  const { error, results = [] } = await new parts.Migrator({
    db,
    provider: { getMigrations: async () => migrations() },
    migrationTableSchema: 'sluice',
    migrationTableName: 'migration',
    migrationLockTableName: 'migration_lock',
  }).migrateToLatest()
  if (error !== undefined) {
    failure.migration = results.find((result) => result.status === 'Error')?.migrationName
    throw error
  }
  return results.map((result) => result.migrationName)
}

function migrations(): Record<string, Migration> {
  return Object.fromEntries(
    migrationFiles().map(({ name, sql: text }) => [
      name,
      { up: async (db) => void (await parts.sql.raw(text).execute(db)) },
    ]),
  )
}

async function assertReachable(pool: pg.Pool): Promise<void> {
  try {
    const client = await pool.connect()
    client.release()
  } catch (cause) {
    throw unreachable(cause)
  }
}

/** It is unknown whether a COMMIT that was under way took effect. */
function lostConnection(cause: unknown): SluiceError {
  const sentence = `The migration lost its connection: ${errorText(cause)}. Run it again: what has been applied is left alone`
  return new SluiceError('UNREACHABLE', sentence, { cause })
}

class Dialect extends parts.PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new Adapter()
  }
}

/**
 * Every Kysely migrator takes the same advisory lock, so an application that calls {@link migrate} inside a Kysely
 * migration of its own would wait for itself. Sluice takes a lock of its own instead, before the migrator starts.
 */
class Adapter extends parts.PostgresAdapter {
  override async acquireMigrationLock(_db: Kysely<unknown>, _options: MigrationLockOptions): Promise<void> {}
  override async releaseMigrationLock(_db: Kysely<unknown>, _options: MigrationLockOptions): Promise<void> {}
}
