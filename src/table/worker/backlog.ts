import { bounded } from '../instant.ts'
import { type Execute, numberOf, numberOrNull, only, statement } from '../statement.ts'

/** How much a queue has. */
export interface Backlog {
  /** So many messages, whether due or not; counted no further than asked. */
  readonly messages: number
  /** How long the oldest due message has been due; null: none is, or it was not asked for. */
  readonly oldestMs: number | null
}

/**
 * Counts the messages of a queue, `most` at most, along the primary key. The oldest due message is one index descent
 * for each priority, and one for each slot: of the messages with keys only the first of a slot is read.
 */
export async function readBacklog(execute: Execute, queue: string, most: number, oldest: boolean): Promise<Backlog> {
  const row = only(await execute(BACKLOG, [queue, most, oldest]))
  return {
    messages: numberOf(row, 'messages'),
    oldestMs: numberOrNull(row, 'oldest_ms'),
  }
}

const BACKLOG = statement(
  'backlog',
  `
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
)
SELECT (SELECT count(*) FROM (
          SELECT FROM sluice.message m WHERE m.queue = $1::text ORDER BY m.id LIMIT $2::integer
        ) counted)::integer AS messages,
       (SELECT max(extract(epoch FROM clock.now - ${bounded('first.due_at')}) * 1000.0) FROM (
          SELECT head.due_at FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
            SELECT m.due_at FROM sluice.message m
            WHERE m.queue = $1::text AND m.slot IS NULL AND m.priority = p.priority
            ORDER BY m.priority, m.due_at, m.id LIMIT 1
          ) head
          UNION ALL
          SELECT head.due_at FROM generate_series(0, 255) AS s (slot) CROSS JOIN LATERAL (
            SELECT m.due_at FROM sluice.message m
            WHERE m.queue = $1::text AND m.slot >= s.slot AND m.slot <= s.slot
            ORDER BY m.slot, m.id LIMIT 1
          ) head
        ) first WHERE $3::boolean AND first.due_at <= clock.now)::double precision AS oldest_ms
FROM clock`,
)
