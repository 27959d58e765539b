import type pg from 'pg'
import { connectionOf } from '../basics/checks/connection-of.ts'
import { recordMigrationSql, withPinnedSearchPath } from '../table/schema.ts'
import type { Report } from '../telemetry/events.ts'
import type { MigrateResult } from './migrator.ts'
import { migrationFiles, type SqlFile } from './sql-files.ts'

export type { MigrateResult }

/**
 * Brings schema "sluice" to this library's version, in one transaction. Safe to call from any number of processes at
 * once, for example at every start: one of them migrates, the others wait and find nothing to do. A newer schema
 * that still serves this library is left alone, so that old processes can restart during a roll-out.
 *
 * The role needs CREATE on the database the first time, and must own the schema when there is something to do.
 *
 * While a migration waits for a lock on a table, all other users of the table wait behind it. So the first attempt
 * waits 5 seconds for each lock and then gives way. Four more attempts wait 15 s, 45 s, 2 min and 5 min. After a
 * deadlock it is tried again in the same way. Each attempt has an hour for a statement, and a silent connection is
 * given up within a minute.
 *
 * @param connection a connection string, or what `pg` takes.
 * @param report receives `migration.delayed` before each further attempt.
 * @throws SluiceError OPTION_INVALID, UNREACHABLE, SERVER_TOO_OLD, SCHEMA_TOO_NEW, SCHEMA_UNRELEASED, or TRANSACTION_FAILED with the
 * server's error as `cause`: then nothing has changed.
 * @example
 * const { applied } = await migrate('postgres://owner@localhost:5432/app', console.log)
 */
export async function migrate(
  connection: string | pg.ClientConfig,
  report: Report = () => undefined,
): Promise<MigrateResult> {
  const config = connectionOf('connection', connection)
  // Loaded when needed: Kysely takes longer to load than everything else together.
  const { MIGRATION_LIMITS, migrateWithin } = await import('./migrator.ts')
  return migrateWithin(MIGRATION_LIMITS, config, report)
}

/**
 * Returns the migrations as plain SQL, in order, for other migration tools. Each also records its name, so that {@link
 * migrate} knows later which have been run.
 */
export function migrationSql(): readonly SqlFile[] {
  return migrationFiles().map(({ name, sql }) => ({ name, sql: withPinnedSearchPath(sql + recordMigrationSql(name)) }))
}
