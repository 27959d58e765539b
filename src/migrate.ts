import type pg from 'pg'
import type { MigrateResult } from './migrator.ts'
import { MIGRATIONS, type SqlFile } from './sql-files.ts'
import { recordMigrationSql, withPinnedSearchPath } from './table/schema.ts'

export type { MigrateResult }

/**
 * Brings schema "sluice" to this library's version, in one transaction. Safe to call from any number of processes at
 * once, for example at every start: one of them migrates, the others wait and find nothing to do. A newer schema
 * that still serves this library is left alone, so that old processes can restart during a roll-out.
 *
 * The role needs CREATE on the database the first time, and afterwards must own the schema.
 *
 * No limit cuts a migration that the server works on: five minutes for each lock, an hour for each statement. A connection
 * that has fallen silent is given up within a minute.
 *
 * @param connection a connection string, or what `pg` takes.
 *
 * @throws SluiceError UNREACHABLE, SERVER_TOO_OLD, SCHEMA_TOO_NEW, or TRANSACTION_FAILED with the server's error as
 * `cause`: then nothing has changed.
 */
export async function migrate(connection: string | pg.ClientConfig): Promise<MigrateResult> {
  return migrateWatched(connection, SILENCE_MS)
}

/** How long nothing may be heard before the server is asked whether it still works. */
const SILENCE_MS = 15_000

/** @param silenceMs for tests. */
export async function migrateWatched(connection: string | pg.ClientConfig, silenceMs: number): Promise<MigrateResult> {
  // Kysely takes longer to load than all the rest together.
  const { runMigrations } = await import('./migrator.ts')
  return runMigrations(connection, silenceMs)
}

/**
 * The migrations as plain SQL, in order, for other migration tools. Each also records its own name, so that
 * {@link migrate} knows later what has been run.
 */
export function migrationSql(): readonly SqlFile[] {
  return MIGRATIONS.map(({ name, sql }) => ({ name, sql: withPinnedSearchPath(sql + recordMigrationSql(name)) }))
}
