import pg from 'pg'
import { executeOn } from '../../../src/connection/open-client.ts'
import type { PriorityFloor } from '../../../src/table/claim/claim.ts'
import { type SlotPosition, WHOLE_QUEUE_SLOT } from '../../../src/table/claim/claim-ordered.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { checkSchema } from '../../../src/table/schema.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { keysOf } from '../rows/claim-session.ts'
import { test as base } from '../servers/undisturbed.ts'
import { type Explained, explain, type PlanMode, recorded } from './explain.ts'

export const DEAD = 300_000

/** A queue with 200 due messages without a key and 200 with one, and where these begin. */
export interface Target {
  readonly queue: string
  readonly floor: PriorityFloor
  readonly slotFloor: SlotPosition
  readonly key: string
  /** The first 100 of each. */
  readonly ids: readonly string[]
  readonly keyedIds: readonly string[]
}

export type Send = (execute: Execute, target: Target) => Promise<unknown>

export interface Pinned {
  readonly client: pg.Client
  readonly execute: Execute
  readonly serverVersion: number
  readonly clean: Target
  /** Below its floors lie 300,000 dead rows of each kind. */
  readonly dead: Target
  explain(send: Send, target: Target, mode?: PlanMode): Promise<Explained>
}

/** `test` on a database in which another session has had a snapshot open for as long as there have been messages. */
export const test = base.extend('pinned', { scope: 'file' }, async ({ database }, { onCleanup }): Promise<Pinned> => {
  const client = new pg.Client({ connectionString: database.url })
  const idle = new pg.Client({ connectionString: database.url })
  await Promise.all([client.connect(), idle.connect()])
  onCleanup(async () => void (await Promise.all([client.end(), idle.end()])))
  await idle.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await idle.query('SELECT count(*) FROM sluice.message')
  // A session's first enqueue compiles the function, which reads the catalog.
  await client.query(`BEGIN; SELECT sluice_private.insert_plain('first', '1'); ROLLBACK`)
  const { same, slot } = await keysOf(database)
  return {
    client,
    execute: executeOn(client),
    serverVersion: (await checkSchema(executeOn(client))).serverVersion,
    clean: await fill(client, { queue: 'clean', key: same[0], slot, dead: 0 }),
    dead: await fill(client, { queue: 'dead', key: same[0], slot, dead: DEAD }),
    explain: async (send, target, mode) => explain(client, await recorded((execute) => send(execute, target)), mode),
  }
})

interface Filling {
  readonly queue: string
  readonly key: string
  readonly slot: number
  readonly dead: number
}

async function fill(client: pg.Client, { queue, key, slot, dead }: Filling): Promise<Target> {
  await ensureSlots(executeOn(client), queue, [slot, WHOLE_QUEUE_SLOT])
  const [unkeyed, keyed] = [await fillLane(client, queue, null, dead), await fillLane(client, queue, key, dead)]
  return {
    queue,
    key,
    floor: { priority: 5, dueUs: unkeyed.beforeUs, id: '0' },
    slotFloor: { slot, id: keyed.ids[0]! },
    ids: unkeyed.ids,
    keyedIds: keyed.ids,
  }
}

/** Puts messages into a queue, and deletes all but the last 200. */
async function fillLane(client: pg.Client, queue: string, key: string | null, dead: number) {
  await client.query(
    `INSERT INTO sluice.message (queue, ordering_key, due_at, payload)
     SELECT $1, $2, clock_timestamp() - interval '1 hour' + n * interval '1 millisecond', '{}'
     FROM generate_series(1, $3::integer + 200) n ORDER BY n`,
    [queue, key, dead],
  )
  const these = 'm.queue = $1 AND m.ordering_key IS NOT DISTINCT FROM $2::text'
  await client.query(
    `DELETE FROM sluice.message m WHERE ${these} AND m.id <= (SELECT max(m.id) - 200 FROM sluice.message m WHERE ${these})`,
    [queue, key],
  )
  const { rows } = await client.query<{ id: string; us: string }>(
    `SELECT m.id::text AS id, (extract(epoch FROM m.due_at) * 1000000)::bigint::text AS us
     FROM sluice.message m WHERE ${these} ORDER BY m.id LIMIT 100`,
    [queue, key],
  )
  return { beforeUs: Number(rows[0]!.us) - 1, ids: rows.map(({ id }) => id) }
}
