import { contentColumns, contentOf, insertedHere } from '../inserted-here.ts'
import { type Execute, numberOf, numberOrNull, type Row, statement, textOf, textOrNull } from '../statement.ts'

/** A message as it was enqueued. */
export interface EnqueuedMessage {
  /** As `enqueue` returned it. */
  readonly id: string
  /** The name of its queue. */
  readonly queue: string
  /** Null if none was given. */
  readonly type: string | null
  /** From 1. */
  readonly schemaVersion: number
  /** As JSON gives it back. */
  readonly payload: unknown
  /** An empty object if none were given. */
  readonly headers: unknown
  /** Null if none was given. */
  readonly orderingKey: string | null
  /** 0 (first) to 9. */
  readonly priority: number
  /** Null if the pipeline's number applies. */
  readonly maxAttempts: number | null
  /**
   * How long after it was enqueued it is due, in milliseconds; of a debounced message, after its first enqueue. The
   * server has read its clock twice, so on a busy machine it may be a millisecond or more less than the delay.
   */
  readonly delayMs: number
  /** Its time to live, counted from the due time, in milliseconds; null: it never expires. */
  readonly ttlMs: number | null
  /** The name of its own retry policy; null: as the queue or pipeline says. */
  readonly retryPolicy: string | null
  /** Its own lease in leased mode, in milliseconds; null: as the pipeline says. */
  readonly leaseMs: number | null
  /** Its tenant; null if none was given. */
  readonly tenant: string | null
  /** Null if none was given. */
  readonly dedupeKey: string | null
}

/**
 * The messages that the current transaction has enqueued so far, in order. Reads the whole table, so it is for tests
 * only.
 */
export async function enqueuedHere(execute: Execute): Promise<readonly EnqueuedMessage[]> {
  return (await execute(ENQUEUED_HERE, [])).map(toEnqueued)
}

const ENQUEUED_HERE = statement(
  'enqueued_here',
  `
SELECT m.id::pg_catalog.text AS id, m.queue, ${contentColumns('m')}, m.priority, m.max_attempts, m.retry_policy, m.lease_ms, m.tenant, m.dedupe_key,
       greatest(extract(epoch FROM m.due_at - m.enqueued_at) * 1000.0, 0) AS delay_ms,
       extract(epoch FROM m.expires_at - m.due_at) * 1000.0 AS ttl_ms
FROM sluice.message m
WHERE ${insertedHere('m')}
ORDER BY m.id`,
)

function toEnqueued(row: Row): EnqueuedMessage {
  return {
    id: textOf(row, 'id'),
    queue: textOf(row, 'queue'),
    ...contentOf(row),
    priority: numberOf(row, 'priority'),
    maxAttempts: numberOrNull(row, 'max_attempts'),
    delayMs: Math.ceil(numberOf(row, 'delay_ms')),
    ttlMs: numberOrNull(row, 'ttl_ms'),
    retryPolicy: textOrNull(row, 'retry_policy'),
    leaseMs: numberOrNull(row, 'lease_ms'),
    tenant: textOrNull(row, 'tenant'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
  }
}
