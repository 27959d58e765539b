import type { Headers, MessageState } from '../../message.ts'
import { type Execute, numberOf, numberOrNull, type Row, statement, textOf, textOrNull } from '../statement.ts'
import { type Failure, failuresOf } from './failures.ts'
import { dateOf, dateOrNull, durationOrNull, microseconds } from './instants.ts'

/** One message that is not dead, as it is now: a row of `sluice.messages`. */
export interface MessageStatus {
  /** The name of its queue. */
  readonly queue: string
  /** Unique in the database, the same through retries, death and redrive. */
  readonly id: string
  /** Due later and never tried, due, in the hands of a worker, failed and due later, or at the end of its life. */
  readonly state: Exclude<MessageState, 'dead'>
  /** Null if none was given. */
  readonly type: string | null
  /** The version of the payload's schema, from 1. */
  readonly schemaVersion: number
  /** As JSON gives it back: numbers beyond 2^53 have lost digits. */
  readonly payload: unknown
  /** The same as the server writes it, with every digit. */
  readonly payloadJson: string
  /** Metadata; an empty object if there is none. */
  readonly headers: Headers
  /** The same as the server writes it. */
  readonly headersJson: string
  /** Null if none was given. */
  readonly orderingKey: string | null
  /** 0 (first) to 9. */
  readonly priority: number
  /** How many attempts have failed so far. */
  readonly attempt: number
  /** After how many failed attempts it dies; null: as the pipeline says. */
  readonly maxAttempts: number | null
  /** Whose message it is; null if none was given. */
  readonly tenant: string | null
  /** Its dedupe key; null if none was given. */
  readonly dedupeKey: string | null
  /** The name of its own retry policy; null: as the queue or pipeline says. */
  readonly retryPolicy: string | null
  /** Its own lease in leased mode, in milliseconds; null: as the pipeline says. */
  readonly leaseMs: number | null
  /** When it was enqueued. */
  readonly enqueuedAt: Date
  /** How long ago that was; null if the instant is infinite. */
  readonly enqueuedAgoMs: number | null
  /** When it may be delivered; null: never. */
  readonly dueAt: Date | null
  /** In how long that is. Negative: it has been due for so long. Null: never. */
  readonly dueInMs: number | null
  /** When its life ends; null: it never expires. */
  readonly expiresAt: Date | null
  /** When its last attempt failed; null if none has. */
  readonly failedAt: Date | null
  /** How its last attempt failed; null if none has. */
  readonly lastError: string | null
  /** Its last failures, the latest last, at most five. Only the latest has a stack. */
  readonly failures: readonly Failure[]
  /** The earlier message with the same ordering key for which it waits. */
  readonly heldBy: string | null
  /** The worker that has it in hand. */
  readonly worker: string | null
  /** The server's process whose transaction has it locked: of a worker's batch, or of any other session. */
  readonly lockedBy: number | null
  /** In leased mode and in a claim: when its lease ends if it is not renewed. */
  readonly leasedUntil: Date | null
  /** The claim that it is in. */
  readonly claim: string | null
  /** In the queue of a group: the position in the stream of the event that it is. */
  readonly position: number | null
}

/** The next messages of a queue in the order in which they fall due, without claiming them. */
export async function peekMessages(execute: Execute, queue: string, limit: number): Promise<readonly MessageStatus[]> {
  const rows = await execute(PEEK, [queue, limit])
  return rows.map(toMessageStatus)
}

/** One message. */
export async function readMessageStatus(
  execute: Execute,
  queue: string,
  id: string,
): Promise<MessageStatus | undefined> {
  const [row] = await execute(ONE, [queue, id])
  return row && toMessageStatus(row)
}

/** Reads {@link MESSAGE_COLUMNS}. */
export function toMessageStatus(row: Row): MessageStatus {
  const payloadJson = textOf(row, 'payload')
  const headersJson = textOf(row, 'headers')
  return {
    queue: textOf(row, 'queue'),
    id: textOf(row, 'id'),
    state: textOf(row, 'state') as MessageStatus['state'],
    type: textOrNull(row, 'type'),
    schemaVersion: numberOf(row, 'schema_version'),
    payload: JSON.parse(payloadJson),
    payloadJson,
    headers: JSON.parse(headersJson),
    headersJson,
    orderingKey: textOrNull(row, 'ordering_key'),
    priority: numberOf(row, 'priority'),
    attempt: numberOf(row, 'attempt'),
    maxAttempts: numberOrNull(row, 'max_attempts'),
    tenant: textOrNull(row, 'tenant'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
    retryPolicy: textOrNull(row, 'retry_policy'),
    leaseMs: durationOrNull(row, 'lease_ms'),
    enqueuedAt: dateOf(row, 'enqueued_us'),
    enqueuedAgoMs: durationOrNull(row, 'enqueued_ago_ms'),
    dueAt: dateOrNull(row, 'due_us'),
    dueInMs: durationOrNull(row, 'due_in_ms'),
    expiresAt: dateOrNull(row, 'expires_us'),
    failedAt: dateOrNull(row, 'failed_us'),
    lastError: textOrNull(row, 'last_error'),
    failures: failuresOf(row),
    heldBy: textOrNull(row, 'held_by'),
    lockedBy: numberOrNull(row, 'locked_by'),
    worker: textOrNull(row, 'worker'),
    leasedUntil: dateOrNull(row, 'leased_until_us'),
    claim: textOrNull(row, 'claim'),
    position: numberOrNull(row, 'event_position'),
  }
}

/**
 * The columns of a row `m` of sluice.messages. Differences are taken between epochs, because an infinite instant cannot
 * be subtracted before PostgreSQL 17.
 */
export const MESSAGE_COLUMNS = `
       m.queue, m.id::text AS id, m.state, m.type, m.schema_version, m.payload::text AS payload, m.headers::text AS headers,
       m.ordering_key, m.priority, m.attempt, m.max_attempts, m.last_error, m.failures::text AS failures, m.held_by::text AS held_by, m.worker, m.locked_by, m.claim::text AS claim,
       m.tenant, m.dedupe_key, m.retry_policy, (extract(epoch FROM m.lease) * 1000.0) AS lease_ms, m.event_position::text AS event_position,
       ${microseconds('m.enqueued_at')} AS enqueued_us,
       ((extract(epoch FROM clock_timestamp()) - extract(epoch FROM m.enqueued_at)) * 1000.0) AS enqueued_ago_ms,
       ${microseconds('m.due_at')} AS due_us,
       ((extract(epoch FROM m.due_at) - extract(epoch FROM clock_timestamp())) * 1000.0) AS due_in_ms,
       ${microseconds('m.expires_at')} AS expires_us, ${microseconds('m.failed_at')} AS failed_us, ${microseconds('m.leased_until')} AS leased_until_us`

const PEEK = statement(
  'operate_peek',
  `
SELECT ${MESSAGE_COLUMNS}
FROM sluice.peek($1::text, $2::integer) m
ORDER BY m.due_at, m.id`,
)

const ONE = statement(
  'operate_message',
  `
SELECT ${MESSAGE_COLUMNS}
FROM sluice.messages m
WHERE m.queue = $1::text AND m.id = $2::bigint`,
)
