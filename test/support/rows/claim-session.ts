import pg from 'pg'
import { executeOn } from '../../../src/connection/open-client.ts'
import type { PriorityFloor } from '../../../src/table/claim/claim.ts'
import type { Execute } from '../../../src/table/statement.ts'
import type { TestDatabase } from '../servers/database.ts'
import { test as base } from '../test.ts'
import { waitFor } from '../wait.ts'

/** One session of the server, with a transaction open: a consumer's connection. */
export interface ClaimSession {
  readonly client: pg.Client
  readonly execute: Execute
  readonly pid: number
  /** Ends its transaction and begins the next. */
  commit(): Promise<void>
  rollBack(): Promise<void>
}

/** `test` with a queue of the test's own, and sessions that end with the test. */
export const test = base
  .extend('queue', ({ task }) => `queue.${task.id.replaceAll(/[^A-Za-z0-9]/g, '')}`)
  .extend('begin', async ({ database }, { onCleanup }) => {
    const clients: pg.Client[] = []
    onCleanup(async () => void (await Promise.all(clients.map((client) => client.end()))))
    return async (): Promise<ClaimSession> => {
      const client = new pg.Client({ connectionString: database.url })
      clients.push(client)
      await client.connect()
      const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      await client.query('BEGIN')
      return {
        client,
        execute: executeOn(client),
        pid: rows[0]!.pid,
        commit: async () => void (await client.query('COMMIT; BEGIN')),
        rollBack: async () => void (await client.query('ROLLBACK; BEGIN')),
      }
    }
  })

/** What is put into a queue: each property for the message at its place. */
export interface Put {
  readonly priority?: number
  readonly key?: string | null
  /** Due so many milliseconds from now; due already, if it is negative. */
  readonly dueInMs?: number
  readonly attempt?: number
}

/** Inserts messages and returns their ids, in order. */
export async function put(
  on: Pick<TestDatabase, 'sql'>,
  queue: string,
  messages: readonly Put[],
): Promise<readonly string[]> {
  const rows = await on.sql<{ id: string }>(
    `INSERT INTO sluice.message (queue, priority, ordering_key, due_at, attempt, payload)
     SELECT $1, m.priority, m.key, clock_timestamp() + m.due_in_ms * interval '1 millisecond', m.attempt, '{}'
     FROM unnest($2::smallint[], $3::text[], $4::float8[], $5::integer[])
       WITH ORDINALITY AS m (priority, key, due_in_ms, attempt, ordinal)
     ORDER BY m.ordinal
     RETURNING id::text AS id`,
    [
      queue,
      messages.map(({ priority = 5 }) => priority),
      messages.map(({ key = null }) => key),
      messages.map(({ dueInMs = -1_000 }) => dueInMs),
      messages.map(({ attempt = 0 }) => attempt),
    ],
  )
  return rows.map(({ id }) => id)
}

/** The ids of a queue's messages that somebody has locked, as another session sees it, in ascending order. */
export async function lockedIds(database: TestDatabase, queue: string): Promise<readonly string[]> {
  const rows = await database.sql<{ id: string }>(
    `WITH free AS MATERIALIZED (SELECT m.id FROM sluice.message m WHERE m.queue = $1 FOR UPDATE SKIP LOCKED)
     SELECT m.id::text AS id FROM sluice.message m
     WHERE m.queue = $1 AND NOT EXISTS (SELECT FROM free WHERE free.id = m.id)
     ORDER BY m.id`,
    [queue],
  )
  return rows.map(({ id }) => id)
}

/** Where a claim without floors begins. */
export function bottomOf(...priorities: readonly number[]): readonly PriorityFloor[] {
  return priorities.map((priority) => ({ priority, dueUs: 0, id: '0' }))
}

/** Ordering keys of which the first ones share a slot, and the last one has another. */
export async function keysOf(database: TestDatabase): Promise<{
  readonly slot: number
  readonly same: readonly [string, string, string]
  readonly otherSlot: number
  readonly other: string
}> {
  const rows = await database.sql<{ key: string; slot: number }>(
    `SELECT k.key, (hashtextextended(k.key COLLATE "C", 0) & 255)::integer AS slot
     FROM (SELECT 'key ' || n AS key FROM generate_series(1, 2000) n) k`,
  )
  const [first] = rows
  const slot = first!.slot
  const [a, b, c] = rows.filter((row) => row.slot === slot).map(({ key }) => key)
  const other = rows.find((row) => row.slot > slot) ?? rows.find((row) => row.slot !== slot)
  return { slot, same: [a!, b!, c!], otherSlot: other!.slot, other: other!.key }
}

/** The ids of claimed rows. */
export function idsOf({ rows }: { readonly rows: readonly { readonly id: string }[] }): readonly string[] {
  return rows.map(({ id }) => id)
}

/** Whether the session waits for a lock of another one. */
export async function isBlocked(database: TestDatabase, { pid }: ClaimSession): Promise<boolean> {
  const [row] = await database.sql<{ blockers: number }>('SELECT cardinality(pg_blocking_pids($1)) AS blockers', [pid])
  return row!.blockers > 0
}

/** @param what the session does, for the error if it does not wait in time. */
export async function untilBlocked(database: TestDatabase, session: ClaimSession, what: string): Promise<void> {
  await waitFor(() => isBlocked(database, session), { what })
}
