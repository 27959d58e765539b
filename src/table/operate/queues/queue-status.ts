import { msUntil, nullable, number, shape, text } from '../../shape.ts'
import { type Execute, statement, textOf } from '../../statement.ts'

/** What waits, runs and fails in one queue: a row of `sluice.queues`. */
export interface QueueStatus {
  /** Its name. */
  readonly queue: string
  /** Due, not in flight, and not held. */
  readonly ready: number
  /** Due, and waiting for an earlier message of their ordering key, which has failed, was snoozed or is leased. */
  readonly held: number
  /** Due later, never tried. */
  readonly scheduled: number
  /** Failed, and due later. */
  readonly retrying: number
  /** Their life has ended, and they are not removed yet. */
  readonly expired: number
  /** In the hands of live workers, leased, or in claims. */
  readonly inFlight: number
  /** Dead letters. */
  readonly dead: number
  /** How long the oldest due message that is not held has been due; null: there is none. */
  readonly oldestReadyAgeMs: number | null
  /** When the next message is due; null: none is waiting for its time. */
  readonly nextDueAt: Date | null
  /** In how long that is. */
  readonly nextDueInMs: number | null
  /** Live worker processes that consume it. */
  readonly workers: number
  /** When it was paused; null: it is not paused. */
  readonly pausedAt: Date | null
}

/** The queues by name, or only the given one. The counts are exact, so the cost grows with the table. */
export async function readQueues(execute: Execute, queue: string | null): Promise<readonly QueueStatus[]> {
  return (await execute(QUEUES, [queue])).map(QUEUE.read)
}

const QUEUE = shape<QueueStatus>({
  queue: text(),
  ready: number(),
  held: number(),
  scheduled: number(),
  retrying: number(),
  expired: number(),
  inFlight: number(),
  dead: number(),
  oldestReadyAgeMs: nullable.duration(),
  nextDueAt: nullable.date(),
  nextDueInMs: msUntil(),
  workers: number(),
  pausedAt: nullable.date(),
})

/**
 * The names of all queues that have messages, dead letters or workers. It goes from each to the next by an index and
 * counts nothing.
 */
export async function readQueueNames(execute: Execute): Promise<readonly string[]> {
  const rows = await execute(QUEUE_NAMES, [])
  return rows.map((row) => textOf(row, 'queue'))
}

const QUEUES = statement(
  'operate_queues',
  `
SELECT ${QUEUE.columns('q')}
FROM sluice.queues q
WHERE $1::text IS NULL OR q.queue = $1::text
ORDER BY q.queue`,
)

const QUEUE_NAMES = statement(
  'operate_queue_names',
  `
WITH RECURSIVE live (queue) AS (
  SELECT (SELECT m.queue FROM sluice.messages m ORDER BY m.queue, m.id LIMIT 1)
  UNION ALL
  SELECT (SELECT m.queue FROM sluice.messages m WHERE m.queue > l.queue ORDER BY m.queue, m.id LIMIT 1)
  FROM live l WHERE l.queue IS NOT NULL
), dead (queue) AS (
  SELECT (SELECT d.queue FROM sluice.dead_letters d ORDER BY d.queue, d.id LIMIT 1)
  UNION ALL
  SELECT (SELECT d.queue FROM sluice.dead_letters d WHERE d.queue > l.queue ORDER BY d.queue, d.id LIMIT 1)
  FROM dead l WHERE l.queue IS NOT NULL
)
SELECT l.queue FROM live l WHERE l.queue IS NOT NULL
UNION SELECT d.queue FROM dead d WHERE d.queue IS NOT NULL
UNION SELECT pg_catalog.unnest(w.queues) FROM sluice.workers w
ORDER BY queue`,
)
