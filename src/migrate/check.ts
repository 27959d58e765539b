import type pg from 'pg'
import { connectionOf } from '../basics/connection-of.ts'
import { hasSqlState, INSUFFICIENT_PRIVILEGE } from '../basics/sql-state.ts'
import { isSluiceError } from '../errors.ts'
import {
  type BlockingSession,
  readBlockingSessions,
  readVersionsInUse,
  type VersionInUse,
} from '../table/deployment.ts'
import { assertServed, type InstalledSchema, readRights, readSchema, SCHEMA_VERSION } from '../table/schema.ts'
import type { Execute } from '../table/statement.ts'
import { grantFor } from './grant-for.ts'
import { MIGRATIONS } from './sql-files.ts'

export type { BlockingSession, VersionInUse }

/** What {@link checkMigration} has found. */
export interface MigrationCheck {
  /** `migrate` would succeed, and nobody would keep it waiting. */
  readonly ready: boolean
  /** The schema's version. Null: there is no schema. */
  readonly version: number | null
  /** The version that this package is written for. */
  readonly wanted: number
  /** The migrations that `migrate` would run, in order. */
  readonly pending: readonly string[]
  /** Why `migrate` would fail, and what to do. Null: nothing is known. */
  readonly problem: string | null
  /** Sessions that a pending migration would wait for. Empty if nothing is pending. */
  readonly blockedBy: readonly BlockingSession[]
  /** What the living workers run, and have in flight. Null: the login may not read that. */
  readonly versions: readonly VersionInUse[] | null
}

/**
 * Says what `migrate` would do, whether it would succeed, and who would keep it waiting. Reads only: it takes no lock on a table.
 *
 * @param connection a connection string, or what `pg` takes
 * @throws SluiceError OPTION_INVALID, UNREACHABLE, SERVER_TOO_OLD, SCHEMA_UNRELEASED
 * @example
 * const { ready, pending, problem } = await checkMigration('postgres://owner@localhost:5432/app')
 */
export async function checkMigration(connection: string | pg.ClientConfig): Promise<MigrationCheck> {
  const config = connectionOf('connection', connection)
  // Loaded when needed, as the driver is everywhere.
  const { closeClient, executeOn, openClient } = await import('../connection/open-client.ts')
  const client = await openClient(config)
  try {
    return await check(executeOn(client))
  } finally {
    await closeClient(client)
  }
}

async function check(execute: Execute): Promise<MigrationCheck> {
  const schema = await readSchema(execute)
  const pending = MIGRATIONS.slice(schema?.version ?? 0).map(({ name }) => name)
  const problem = await problemOf(execute, schema, pending.length > 0)
  const blockedBy = pending.length > 0 ? await readBlockingSessions(execute) : []
  return {
    ready: problem === null && blockedBy.length === 0,
    version: schema?.version ?? null,
    wanted: SCHEMA_VERSION,
    pending,
    problem,
    blockedBy,
    versions: schema === undefined ? [] : await versionsInUse(execute),
  }
}

async function problemOf(
  execute: Execute,
  schema: InstalledSchema | undefined,
  changes: boolean,
): Promise<string | null> {
  if (!changes) return schema === undefined ? null : refusalOf(schema)
  const rights = await readRights(execute)
  return rights.owns && schema !== undefined ? null : (grantFor(rights) ?? null)
}

function refusalOf(schema: InstalledSchema): string | null {
  try {
    assertServed(schema)
    return null
  } catch (error) {
    if (isSluiceError(error)) return error.message
    throw error
  }
}

async function versionsInUse(execute: Execute): Promise<readonly VersionInUse[] | null> {
  return readVersionsInUse(execute).catch((error: unknown) => {
    if (hasSqlState(error, INSUFFICIENT_PRIVILEGE)) return null
    throw error
  })
}
