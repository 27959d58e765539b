import {
  booleanOf,
  type Execute,
  numberOf,
  numberOrNull,
  type Row,
  statement,
  textOf,
  textOrNull,
} from '../statement.ts'
import { dateOf, dateOrNull, durationOrNull, microseconds } from './instants.ts'

/** A schedule: a row of `sluice.schedules`. */
export interface ScheduleStatus {
  /** Its name. */
  readonly name: string
  /** The queue that gets its messages. */
  readonly queue: string
  /** Its cron expression; null: it has an interval. */
  readonly cron: string | null
  /** Its interval in milliseconds; null: it has a cron expression. */
  readonly everyMs: number | null
  /** The time zone of the cron expression. */
  readonly zone: string
  /** The next occurrence; null: it is paused, its next occurrence is not computed yet, or there is none any more. */
  readonly nextAt: Date | null
  /** In how long that is; negative if it is late. */
  readonly nextInMs: number | null
  /** The last occurrence that was enqueued; null: none has been. */
  readonly lastAt: Date | null
  /** When that was enqueued. */
  readonly lastEnqueuedAt: Date | null
  /** The id of its message. */
  readonly lastId: string | null
  /** How many messages it has enqueued. */
  readonly enqueued: number
  /** How many occurrences were missed or left out. Long gaps are counted to 1,000. */
  readonly skipped: number
  /** Why its next occurrence could not be computed or enqueued. */
  readonly error: string | null
  /** Since when it is paused, by whom and why; null: it is not. */
  readonly paused: { readonly at: Date; readonly by: string | null; readonly reason: string | null } | null
  /** What becomes of missed occurrences: 'skip', 'last' or 'all'. */
  readonly missed: string
  /** How late an occurrence may be without being missed, in milliseconds. */
  readonly graceMs: number
  /** How many missed occurrences are enqueued at most, and how old they may be in milliseconds. */
  readonly catchUp: { readonly most: number; readonly withinMs: number }
  /** Whether it enqueues while its last message is queued or in flight. */
  readonly overlap: boolean
  /** The payload of its messages, as JSON text. */
  readonly payloadJson: string
  /** Their headers, as JSON text. */
  readonly headersJson: string
  /** Their type. */
  readonly type: string | null
  /** Their ordering key. */
  readonly orderingKey: string | null
  /** Their priority. */
  readonly priority: number
  /** The version of their payload's schema. */
  readonly schemaVersion: number
  /** How long after an occurrence its message is due, in milliseconds; null: as the queue says, or at once. */
  readonly delayMs: number | null
  /** After how many failed attempts they die; null: as the queue or the pipeline says. */
  readonly maxAttempts: number | null
  /** For how long after it is due one may be delivered, in milliseconds; null: as the queue says, or for ever. */
  readonly ttlMs: number | null
  /** The name of their retry policy. */
  readonly retryPolicy: string | null
  /** Their lease in leased mode, in milliseconds; null: as the pipeline says. */
  readonly leaseMs: number | null
  /** Their tenant. */
  readonly tenant: string | null
  /** When its definition was changed last. */
  readonly changedAt: Date
  /** The login that changed it. */
  readonly changedBy: string | null
}

/** Schedules by name, or those of one queue, or the one with a name. */
export async function readSchedules(
  execute: Execute,
  match: { readonly queue: string | null; readonly name: string | null; readonly limit: number },
): Promise<readonly ScheduleStatus[]> {
  return (await execute(SCHEDULES, [match.queue, match.name, match.limit])).map(toStatus)
}

function toStatus(row: Row): ScheduleStatus {
  const pausedAt = dateOrNull(row, 'paused_us')
  return {
    name: textOf(row, 'name'),
    queue: textOf(row, 'queue'),
    cron: textOrNull(row, 'cron'),
    everyMs: durationOrNull(row, 'every_ms'),
    zone: textOf(row, 'zone'),
    nextAt: dateOrNull(row, 'next_us'),
    nextInMs: durationOrNull(row, 'next_in_ms'),
    lastAt: dateOrNull(row, 'last_us'),
    lastEnqueuedAt: dateOrNull(row, 'last_enqueued_us'),
    lastId: textOrNull(row, 'last_id'),
    enqueued: numberOf(row, 'enqueued'),
    skipped: numberOf(row, 'skipped'),
    error: textOrNull(row, 'error'),
    paused: pausedAt && { at: pausedAt, by: textOrNull(row, 'paused_by'), reason: textOrNull(row, 'pause_reason') },
    missed: textOf(row, 'missed'),
    graceMs: numberOf(row, 'grace_ms'),
    catchUp: { most: numberOf(row, 'catch_up_most'), withinMs: numberOf(row, 'catch_up_ms') },
    overlap: booleanOf(row, 'overlap'),
    payloadJson: textOf(row, 'payload'),
    headersJson: textOf(row, 'headers'),
    type: textOrNull(row, 'type'),
    orderingKey: textOrNull(row, 'ordering_key'),
    priority: numberOf(row, 'priority'),
    schemaVersion: numberOf(row, 'schema_version'),
    delayMs: durationOrNull(row, 'delay_ms'),
    maxAttempts: numberOrNull(row, 'max_attempts'),
    ttlMs: durationOrNull(row, 'ttl_ms'),
    retryPolicy: textOrNull(row, 'retry_policy'),
    leaseMs: durationOrNull(row, 'lease_ms'),
    tenant: textOrNull(row, 'tenant'),
    changedAt: dateOf(row, 'changed_us'),
    changedBy: textOrNull(row, 'changed_by'),
  }
}

const SCHEDULES = statement(
  'operate_schedules',
  `
SELECT s.name, s.queue, s.cron, (extract(epoch FROM s.every) * 1000.0) AS every_ms, s.zone,
       ${microseconds('s.next_at')} AS next_us,
       ((extract(epoch FROM s.next_at) - extract(epoch FROM clock_timestamp())) * 1000.0) AS next_in_ms,
       ${microseconds('s.last_at')} AS last_us, ${microseconds('s.last_enqueued_at')} AS last_enqueued_us,
       s.last_id::text AS last_id, s.enqueued::text AS enqueued, s.skipped::text AS skipped, s.error,
       ${microseconds('s.paused_at')} AS paused_us, s.paused_by, s.pause_reason, s.missed,
       (extract(epoch FROM s.grace) * 1000.0) AS grace_ms, s.catch_up_most,
       (extract(epoch FROM s.catch_up_within) * 1000.0) AS catch_up_ms, s.overlap,
       s.payload::text AS payload, s.headers::text AS headers, s.type, s.ordering_key, s.priority,
       s.schema_version, (extract(epoch FROM s.delay) * 1000.0) AS delay_ms, s.max_attempts,
       (extract(epoch FROM s.ttl) * 1000.0) AS ttl_ms, s.retry_policy, (extract(epoch FROM s.lease) * 1000.0) AS lease_ms, s.tenant,
       ${microseconds('s.changed_at')} AS changed_us, s.changed_by
FROM sluice.schedules s
WHERE ($1::text IS NULL OR s.queue = $1::text) AND ($2::text IS NULL OR s.name = $2::text)
ORDER BY s.name LIMIT $3::integer`,
)
