import type pg from 'pg'
import { connectionOf } from '../basics/checks/connection-of.ts'
import { hasSqlState, INSUFFICIENT_PRIVILEGE, LOCK_NOT_AVAILABLE } from '../basics/errors/sql-state.ts'
import { isSluiceError } from '../errors.ts'
import {
  type BlockingSession,
  readBlockingSessions,
  readVersionsInUse,
  type VersionInUse,
} from '../table/deployment.ts'
import {
  assertServed,
  BOUND_LOCKS,
  type InstalledSchema,
  readRights,
  readSchema,
  SCHEMA_VERSION,
} from '../table/schema.ts'
import type { Execute } from '../table/statement.ts'
import { blockersOfSchema } from './blockers-of-schema.ts'
import { grantFor } from './grant-for.ts'
import { migrationFiles } from './sql-files.ts'

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
  /** Sessions that keep a migration, or this check, waiting. */
  readonly blockedBy: readonly BlockingSession[]
  /** What the living workers run, and have in flight. Null: the login may not read that, or a session in `blockedBy` keeps it. */
  readonly versions: readonly VersionInUse[] | null
}

/**
 * Says what `migrate` would do, whether it would succeed, and who would keep it waiting. It changes nothing, locks no table, and waits at
 * most a second for a lock. Where there is no schema, it tries for that long to create one, and rolls back.
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
    const execute = executeOn(client)
    return await check(execute, {
      versions: () => versionsInUse(client, execute),
      creators: () => blockersOfSchema(config, execute),
    })
  } finally {
    await closeClient(client)
  }
}

interface Waiting {
  readonly versions: () => Promise<MigrationCheck['versions'] | 'locked'>
  readonly creators: () => Promise<readonly number[]>
}

async function check(execute: Execute, waiting: Waiting): Promise<MigrationCheck> {
  const schema = await readSchema(execute)
  const pending = migrationFiles()
    .slice(schema?.version ?? 0)
    .map(({ name }) => name)
  const problem = await problemOf(execute, schema, pending.length > 0)
  const versions = schema === undefined ? [] : await waiting.versions()
  const blocking = {
    lockedForMs: pending.length > 0 ? LOCKED_FOR_MS : null,
    exclusively: versions === 'locked',
    pids: [],
  }
  const found = await readBlockingSessions(execute, blocking)
  const tries = schema === undefined && problem === null && found.length === 0
  const blockedBy = tries ? await readBlockingSessions(execute, { ...blocking, pids: await waiting.creators() }) : found
  return {
    ready: problem === null && blockedBy.length === 0,
    version: schema?.version ?? null,
    wanted: SCHEMA_VERSION,
    pending,
    problem,
    blockedBy,
    versions: versions === 'locked' ? null : versions,
  }
}

/** The first attempt of a migration waits for so long. */
const LOCKED_FOR_MS = 5_000
const LOCK_WAIT_MS = 1_000

async function problemOf(
  execute: Execute,
  schema: InstalledSchema | undefined,
  changes: boolean,
): Promise<string | null> {
  if (!changes) return schema === undefined ? null : refusalOf(schema)
  const rights = await readRights(execute)
  if (rights.readOnly) return READ_ONLY
  return rights.owns && schema !== undefined ? null : (grantFor(rights) ?? null)
}

const READ_ONLY = 'Transactions are read-only here: connect to the primary, and look for default_transaction_read_only'

function refusalOf(schema: InstalledSchema): string | null {
  try {
    assertServed(schema)
    return null
  } catch (error) {
    if (isSluiceError(error)) return error.message
    throw error
  }
}

/** In a transaction, for a limit that a pooler gives nobody else. */
async function versionsInUse(client: pg.ClientBase, execute: Execute): Promise<MigrationCheck['versions'] | 'locked'> {
  await client.query('BEGIN READ ONLY')
  try {
    await execute(BOUND_LOCKS, [`${LOCK_WAIT_MS}ms`])
    return await readVersionsInUse(execute)
  } catch (error) {
    if (hasSqlState(error, INSUFFICIENT_PRIVILEGE)) return null
    if (hasSqlState(error, LOCK_NOT_AVAILABLE)) return 'locked'
    throw error
  } finally {
    await client.query('ROLLBACK')
  }
}
