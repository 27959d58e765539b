import pg from 'pg'
import { executeOn } from '../../../src/connection/open-client.ts'
import { claimSettings } from '../../../src/table/planner.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { lookAtStableEnds } from '../../../src/table/stream/claim-events.ts'
import { type KnownGroup, readGroup } from '../../../src/table/stream/known-group.ts'
import { test as base } from '../servers/undisturbed.ts'
import { type Explained, explain, type PlanMode, recorded } from './explain.ts'
import { type Statistics, setStatistics } from './statistics.ts'

/** A group of the stream, in the middle of its events, and its queue. */
export interface LogTarget extends KnownGroup {
  readonly name: string
  readonly queue: string
  /** As {@link lookAtStableEnds} gives them. */
  readonly stableEnds: string
  /** How far it has read the first partition. */
  readonly at: number
}

export type SendOfLog = (execute: Execute, target: LogTarget) => Promise<unknown>

export interface Log {
  readonly client: pg.Client
  /** It is in the middle of the events, where it has come in one move, and its queue is empty. */
  readonly clean: LogTarget
  /** It has come there in 64,000 moves: all rows of its progress but the last are dead. */
  readonly dead: LogTarget
  /** Its queue has 1,000 messages with keys. */
  readonly deferred: LogTarget
  /** Its queue has had 20,000 messages with keys, which are dead rows. */
  readonly failed: LogTarget
  /** Five events of each partition are unread. */
  readonly near: LogTarget
  with(statistics: Statistics): Promise<void>
  /** Of the statement with this name, in a transaction that has locked the first partition. */
  explain(send: SendOfLog, target: LogTarget, how?: How): Promise<Explained>
}

interface How {
  readonly name?: string | undefined
  readonly mode?: PlanMode
  /** Of its text, to show what that would cost. */
  readonly change?: (text: string) => string
}

export const EVENTS = 200_000
export const FAILED = 20_000
const PARTITIONS = 16
const MOVES = 4_000

/** `test` on a stream with 200,000 events in 16 partitions, in a database in which another session has had a snapshot open from the beginning. */
export const test = base.extend('log', { scope: 'file' }, async ({ database }, { onCleanup }): Promise<Log> => {
  const client = new pg.Client({ connectionString: database.url })
  const idle = new pg.Client({ connectionString: database.url })
  await Promise.all([client.connect(), idle.connect()])
  onCleanup(async () => void (await Promise.all([client.end(), idle.end()])))
  await client.query(`SELECT sluice.create_stream('log', ${PARTITIONS}::smallint)`)
  await idle.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await idle.query('SELECT count(*) FROM sluice.group_progress')
  await client.query(
    `INSERT INTO sluice.event (stream_id, partition, position, ordering_key, payload)
     SELECT 1, n % ${PARTITIONS}, nextval('sluice.event_position_1'), CASE WHEN n % 2 = 0 THEN 'key ' || n % 5000 END, '{"n": 1}'
     FROM generate_series(0, ${EVENTS - 1}) n ORDER BY n`,
  )
  await client.query(
    `INSERT INTO sluice.message (queue, ordering_key, payload, event_position)
     SELECT CASE WHEN n <= 1000 THEN 'log:deferred' WHEN n <= ${1_000 + FAILED} THEN 'log:failed' ELSE 'other' END,
            CASE WHEN n % 2 = 0 OR n <= ${1_000 + FAILED} THEN 'deferred ' || n END, '{}', n
     FROM generate_series(1, 100000) n`,
  )
  await client.query(`DELETE FROM sluice.message WHERE queue = 'log:failed'`)
  const groups = {
    clean: await makeGroup(client, { name: 'clean', moves: 1, at: EVENTS / 2 }),
    dead: await makeGroup(client, { name: 'dead', moves: MOVES, at: EVENTS / 2 }),
    deferred: await makeGroup(client, { name: 'deferred', moves: 1, at: EVENTS / 2 }),
    failed: await makeGroup(client, { name: 'failed', moves: 1, at: EVENTS / 2 }),
    near: await makeGroup(client, { name: 'near', moves: 1, at: EVENTS - 5 * PARTITIONS }),
  }
  for (const { groupId } of [groups.deferred, groups.failed])
    await client.query('SELECT sluice_private.note_queued($1)', [groupId])
  return {
    client,
    ...groups,
    with: async (wanted) => {
      for (const relation of ['sluice.message', 'sluice.event_1_0', 'sluice.group_progress'] as const)
        await setStatistics(client, wanted, relation)
    },
    explain: async (send, target, { name, mode, change = unchanged } = {}) => {
      const { statement, params } = await recorded((execute) => send(execute, target), name)
      const changed = { statement: { ...statement, text: change(statement.text) }, params }
      return explain(client, changed, mode, `${claimSettings()}; SELECT set_config('sluice.partitions', '0', true)`)
    },
  }
})

interface Made {
  readonly name: string
  /** In so many moves, */
  readonly moves: number
  /** it has read all events up to this position. */
  readonly at: number
}

async function makeGroup(client: pg.Client, { name, moves, at }: Made): Promise<LogTarget> {
  await client.query(`SELECT sluice.create_group('log', $1, '{0}')`, [name])
  const execute = executeOn(client)
  const group = await readGroup(execute, 'log', name)
  await client.query(
    `INSERT INTO sluice.group_progress (group_id, partition, position)
     SELECT $1, partition, $2::integer - ($3::integer - n) FROM generate_series(0, ${PARTITIONS - 1}) partition, generate_series(1, $3::integer) n
     ORDER BY n, partition`,
    [group.groupId, at, moves],
  )
  await client.query('DELETE FROM sluice.group_progress p WHERE p.group_id = $1 AND p.position < $2::integer', [
    group.groupId,
    at,
  ])
  return { ...group, name, at, queue: `log:${name}`, stableEnds: await lookAtStableEnds(execute, group) }
}

function unchanged(text: string): string {
  return text
}
