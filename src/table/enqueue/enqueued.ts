import { contentColumns, contentOf, insertedHere } from '../inserted-here.ts'
import { type Execute, numberOf, numberOrNull, type Row, statement, textOf } from '../statement.ts'

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
 * The messages that the current transaction has enqueued so far, in order. Reads the whole table, so it is for tests
 * only.
 */
export async function enqueuedHere(execute: Execute): Promise<readonly EnqueuedMessage[]> {
  return (await execute(ENQUEUED_HERE, [])).map(toEnqueued)
}

const ENQUEUED_HERE = statement(
  'enqueued_here',
  `
SELECT m.id::pg_catalog.text AS id, m.queue, ${contentColumns('m')}, m.priority, m.max_attempts,
       greatest(extract(epoch FROM m.due_at - m.enqueued_at) * 1000.0, 0) AS delay_ms
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
  }
}
