import { nullable, number, shape, text } from '../../shape.ts'
import { type Execute, statement } from '../../statement.ts'

/** What a queue has to do, counted up to 10,000: a row of `sluice.backlogs`. */
export interface QueueBacklog {
  /** Its name. */
  readonly queue: string
  /** Due, up to 10,000. Those that a transactional worker handles now are among them. */
  readonly due: number
  /** Leased, or in claims. */
  readonly leased: number
  /** In the hands of live workers and in claims. */
  readonly inFlight: number
  /** How long the oldest due message has been due; null: none is due. */
  readonly oldestDueAgeMs: number | null
  /** Dead letters, up to 10,000. */
  readonly dead: number
  /** Live worker processes that consume it. */
  readonly workers: number
  /** How many messages may be in flight; null: no limit. */
  readonly concurrency: number | null
  /** When it was paused; null: it is not paused. */
  readonly pausedAt: Date | null
  /** Failed, and waiting for their next attempt, up to 10,000. */
  readonly retrying: number
  /** Ordering keys whose messages wait for one of theirs that has failed or was snoozed, up to 10,000. */
  readonly heldKeys: number
}

/** The backlogs by queue, or of only one. The cost grows with the number of queues, and not with that of messages. */
export async function readBacklogs(execute: Execute, queue: string | null): Promise<readonly QueueBacklog[]> {
  return (await execute(BACKLOGS, [queue])).map(BACKLOG.read)
}

const BACKLOG = shape<QueueBacklog>({
  queue: text(),
  due: number(),
  leased: number(),
  inFlight: number(),
  oldestDueAgeMs: nullable.duration(),
  dead: number(),
  workers: number(),
  concurrency: nullable.number(),
  pausedAt: nullable.date(),
  retrying: number(),
  heldKeys: number(),
})

const BACKLOGS = statement(
  'operate_backlogs',
  `
SELECT ${BACKLOG.columns('b')}
FROM sluice.backlogs b
WHERE $1::text IS NULL OR b.queue = $1::text
ORDER BY b.queue`,
)
