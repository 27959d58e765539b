import { bounded } from '../instant.ts'
import { type AllSettings, allSettings, toAllSettings } from '../settings/read-settings.ts'
import { booleanOf, type Execute, numberOf, type Row, statement, textOf } from '../statement.ts'
import { type CancelRequest, cancelRequests, toCancelRequest } from './cancel-requests.ts'
import { anyDead } from './reap.ts'

/** Who has a queue's waiting flag now: we have it, enqueues in flight keep it down, or another process waits. */
export type FlagState = 'ours' | 'enqueueing' | 'others'

/**
 * Tries to raise the waiting flag of a queue, which is an exclusive lock. Every enqueuing transaction tries the same
 * lock in shared mode. If ours fails, a shared try tells why: it succeeds unless another process waits.
 */
export async function raiseFlag(execute: Execute, queue: string): Promise<FlagState> {
  const [row] = await execute(RAISE_FLAG, [queue])
  if (row === undefined) throw new TypeError('expected the state of the flag')
  const state = textOf(row, 'state')
  if (state === 'ours' || state === 'enqueueing' || state === 'others') return state
  throw new TypeError(`state of the flag: ${state}`)
}

/**
 * Lowers the flag and notifies the other processes, so that one of them raises it. The lock is released first. If the
 * notification fails, for example at the lock that NOTIFY waits for, the flag is down, and no worker wakes.
 */
export async function lowerFlag(execute: Execute, queue: string, notification: string): Promise<void> {
  await execute(LOWER_FLAG, [queue, notification])
}

/** Lowers the flag without a notification: this process checks the queue by itself for a moment. */
export async function restFlag(execute: Execute, queue: string): Promise<void> {
  await execute(REST_FLAG, [queue])
}

/** Notifies the other processes that this one no longer checks the queue. */
export async function tellLowered(execute: Execute, notification: string): Promise<void> {
  await execute(TELL_LOWERED, [notification])
}

/** Notifies this process's own listener, which should hear it. */
export async function notifyListener(execute: Execute, payload: string): Promise<void> {
  await execute(NOTIFY_LISTENER, [payload])
}

/** Those of the queues that no worker waits for at this moment. */
export async function unwatchedQueues(execute: Execute, queues: readonly string[]): Promise<readonly string[]> {
  const rows = await execute(UNWATCHED, [queues])
  return rows.map((row) => textOf(row, 'queue'))
}

/** What a poll found in one queue. */
export interface PolledQueue {
  readonly queue: string
  /**
   * Milliseconds until the first message without a key is due, at most zero if one is due; null if there is none.
   */
  readonly nextDueMs: number | null
  /** Whether there are messages with ordering keys. It takes a scan to find out whether one of them is due. */
  readonly keyed: boolean
}

/** What a poll found. */
export interface Polled {
  readonly queues: readonly PolledQueue[]
  /** Milliseconds until the next schedule is due; null if there is none, or all are paused. */
  readonly nextScheduleMs: number | null
  /** The settings of queues; undefined: the version is still the one that was given. */
  readonly settings: AllSettings | undefined
  /** Which messages that the process has in flight were cancelled. */
  readonly cancelRequests: readonly CancelRequest[]
  /** A worker is dead, or a batch is left of one. False where it was not asked for. */
  readonly anyDead: boolean
}

/** What a poll asks for beside queues. */
export interface PollOptions {
  /** All queues that the process consumes, for its heartbeat. @default no heartbeat */
  readonly consumed?: readonly string[] | null
  /** What it has done, as JSON, for the heartbeat. */
  readonly statistics?: string | null
  /** Whether notifications arrive, for the heartbeat. @default unknown */
  readonly listening?: boolean | null
  /** How many connections to the server it may have, for the heartbeat; null: a pooler is in front. @default unknown */
  readonly connections?: number | null
  /** Of the settings of queues that are known. */
  readonly version?: string | null | undefined
  /** Whether a worker is dead. @default false */
  readonly dead?: boolean
}

/**
 * The poll of a process: one statement for all `queues` in which one of its pipelines waits, for the settings of
 * queues that have changed since `version`, for what it has in flight and is to cancel, for `dead` workers, and its heartbeat, if
 * `consumed` says which queues it consumes, with `statistics` of what it has done, and whether it is `listening`. Queues
 * without messages are left out. An empty queue costs two index descents; dead rows at its head cost more, so busy queues, which have many, are not polled. Each probe orders by all
 * columns of one index, as in `queue_scan`. The row without a queue is the next schedule: without schedules it costs a
 * page of an empty index. Its bounds are those of the table's constraint: a row that is there in spite of it must not
 * fail the poll of all queues.
 */
export async function pollQueues(
  execute: Execute,
  workerId: number,
  queues: readonly string[],
  {
    consumed = null,
    statistics = null,
    listening = null,
    connections = null,
    version = null,
    dead = false,
  }: PollOptions = {},
): Promise<Polled> {
  const answer = await execute(POLL, [workerId, queues, consumed, statistics, version, dead, listening, connections])
  const rows = answer.filter((row) => row.dead !== true)
  const settings = rows.find((row) => typeof row.settings === 'string')
  const schedule = rows.find((row) => row.queue === null && row !== settings)
  const requests = rows.filter((row) => typeof row.id === 'string')
  return {
    queues: rows.filter((row) => row !== settings && row !== schedule && !requests.includes(row)).map(toPolled),
    settings: settings && toAllSettings(settings),
    cancelRequests: requests.map(toCancelRequest),
    nextScheduleMs: schedule === undefined ? null : numberOf(schedule, 'next_due_us') / 1_000,
    anyDead: rows.length < answer.length,
  }
}

function toPolled(row: Row): PolledQueue {
  return {
    queue: textOf(row, 'queue'),
    nextDueMs: row.next_due_us === null ? null : numberOf(row, 'next_due_us') / 1_000,
    keyed: booleanOf(row, 'keyed'),
  }
}

const RAISE_FLAG = statement(
  'flag_raise',
  `
SELECT CASE WHEN pg_try_advisory_lock(746501, hashtext($1::text)) THEN 'ours'
            WHEN pg_try_advisory_xact_lock_shared(746501, hashtext($1::text)) THEN 'enqueueing'
            ELSE 'others' END AS state`,
)

const LOWER_FLAG = statement(
  'flag_lower',
  `
SELECT pg_advisory_unlock(746501, hashtext($1::text)),
       CASE WHEN pg_notification_queue_usage() < 0.5::double precision THEN pg_notify('sluice', $2::text) END`,
)

const REST_FLAG = statement('flag_rest', 'SELECT pg_advisory_unlock(746501, hashtext($1::text))')

const TELL_LOWERED = statement(
  'flag_announce',
  `
SELECT CASE WHEN pg_notification_queue_usage() < 0.5::double precision THEN pg_notify('sluice', $1::text) END`,
)

const NOTIFY_LISTENER = statement('listener_notify', "SELECT pg_notify('sluice', $1::text)")

const UNWATCHED = statement(
  'flag_unwatched',
  `
SELECT q.queue FROM pg_catalog.unnest($1::text[]) AS q (queue)
WHERE pg_try_advisory_xact_lock_shared(746501, hashtext(q.queue))`,
)

const POLL = statement(
  'poll',
  `
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), alive AS (
  UPDATE sluice.worker w SET seen_at = clock_timestamp(), queues = $3::text[], statistics = $4::text::jsonb,
         listening = $7::boolean, connections = $8::integer
  WHERE w.id = $1::integer AND $3::text[] IS NOT NULL
)
SELECT q.queue, keyed.slot IS NOT NULL AS keyed,
       CASE WHEN first.due_at IS NOT NULL THEN (extract(epoch FROM ${bounded('first.due_at')} - clock.now) * 1000000.0)::bigint END AS next_due_us,
       NULL AS settings, NULL AS id, NULL::bigint AS asked_us, NULL::boolean AS dead
FROM clock CROSS JOIN pg_catalog.unnest($2::text[]) AS q (queue)
LEFT JOIN LATERAL (
  SELECT m.priority FROM sluice.message m
  WHERE m.queue = q.queue AND m.slot IS NULL ORDER BY m.priority, m.due_at, m.id LIMIT 1
) unkeyed ON true
LEFT JOIN LATERAL (
  SELECT m.slot FROM sluice.message m
  WHERE m.queue = q.queue AND m.slot IS NOT NULL ORDER BY m.slot, m.id LIMIT 1
) keyed ON true
LEFT JOIN LATERAL (
  SELECT min(head.due_at) AS due_at
  FROM generate_series(unkeyed.priority::integer, 9) AS p (priority)
  CROSS JOIN LATERAL (
    SELECT m.due_at FROM sluice.message m
    WHERE m.queue = q.queue AND m.slot IS NULL AND m.priority = p.priority ORDER BY m.due_at, m.id LIMIT 1
  ) head
) first ON unkeyed.priority IS NOT NULL
WHERE unkeyed.priority IS NOT NULL OR keyed.slot IS NOT NULL
UNION ALL
SELECT NULL, NULL, NULL, t.settings, NULL, NULL, NULL FROM (${allSettings('$5')}
) t
UNION ALL
SELECT r.queue, NULL, NULL, NULL, r.id, r.asked_us, NULL FROM (${cancelRequests('$1')}
) r
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, true WHERE $6::boolean AND ${anyDead('$1')}
UNION ALL
SELECT NULL, false, (extract(epoch FROM next.next_at - clock.now) * 1000000.0)::bigint, NULL, NULL, NULL, NULL
FROM clock CROSS JOIN LATERAL (
  SELECT s.next_at FROM sluice.schedule s
  WHERE s.paused_at IS NULL AND s.next_at >= '1970-01-01 00:00Z' AND s.next_at < '10000-01-01 00:00Z' ORDER BY s.next_at LIMIT 1
) next`,
)
