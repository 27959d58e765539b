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
   * How long after it was enqueued it is due, in milliseconds. The server has read its clock twice, so on a busy machine it
   * may be some milliseconds less than the delay.
   */
  readonly delayMs: number
}

/**
 * The messages that the current transaction has enqueued so far, in order. If a visible row was inserted by a
 * transaction that is still in progress, that transaction is ours, or a savepoint of it. Reads the whole table, so it
 * is for tests only.
 */
export async function enqueuedHere(execute: Execute): Promise<readonly EnqueuedMessage[]> {
  return (await execute(ENQUEUED_HERE, [])).map(toEnqueued)
}

const ENQUEUED_HERE = statement(
  'enqueued_here',
  `
SELECT m.id::pg_catalog.text AS id, m.queue, m.type, m.schema_version,
       m.payload::pg_catalog.text AS payload, m.headers::pg_catalog.text AS headers,
       m.ordering_key, m.priority, m.max_attempts,
       greatest(extract(epoch FROM m.due_at - m.enqueued_at) * 1000.0, 0) AS delay_ms
FROM sluice.message m
WHERE pg_xact_status(
        ((pg_current_xact_id()::pg_catalog.text::bigint >> 32 << 32) + m.xmin::pg_catalog.text::bigint)
          ::pg_catalog.text::pg_catalog.xid8
      ) = 'in progress'
ORDER BY m.id`,
)

function toEnqueued(row: Row): EnqueuedMessage {
  return {
    id: textOf(row, 'id'),
    queue: textOf(row, 'queue'),
    type: textOrNull(row, 'type'),
    schemaVersion: numberOf(row, 'schema_version'),
    payload: JSON.parse(textOf(row, 'payload')),
    headers: JSON.parse(textOf(row, 'headers')),
    orderingKey: textOrNull(row, 'ordering_key'),
    priority: numberOf(row, 'priority'),
    maxAttempts: numberOrNull(row, 'max_attempts'),
    delayMs: Math.ceil(numberOf(row, 'delay_ms')),
  }
}
