import { date, duration, nullable, number, shape, text } from '../../shape.ts'
import { type Execute, statement } from '../../statement.ts'

/** What all workers have done in a queue in one step of time: a row of `sluice.activity`. */
export interface QueueActivity {
  /** The queue, or `stream:group`. */
  readonly queue: string
  /** When the step begins. */
  readonly at: Date
  /** Messages that were handled and removed. */
  readonly acked: number
  /** Attempts that failed, or asked for a retry. */
  readonly retried: number
  /** Messages that were snoozed. */
  readonly snoozed: number
  /** Messages that became dead letters. */
  readonly dead: number
  /** Transactions that settled messages. */
  readonly batches: number
  /** From when a message became due until its handler began: half of them waited no longer. Null: none began. */
  readonly waitingP50Ms: number | null
  readonly waitingP99Ms: number | null
  readonly waitingMaxMs: number | null
  /** How long the calls of the handler took: half of them took no longer. Null: none ended. */
  readonly handlingP50Ms: number | null
  readonly handlingP99Ms: number | null
  readonly handlingMaxMs: number | null
  /** The time of all calls together. */
  readonly handlingTotalMs: number
}

/** By queue and time. Steps in which nothing was done are left out. */
export async function readActivity(
  execute: Execute,
  queue: string | null,
  sinceMs: number,
  stepMs: number,
): Promise<readonly QueueActivity[]> {
  return (await execute(ACTIVITY, [queue, sinceMs, stepMs])).map(STEP.read)
}

const STEP = shape<QueueActivity>({
  queue: text(),
  at: date(),
  acked: number(),
  retried: number(),
  snoozed: number(),
  dead: number(),
  batches: number(),
  waitingP50Ms: nullable.duration(),
  waitingP99Ms: nullable.duration(),
  waitingMaxMs: nullable.duration(),
  handlingP50Ms: nullable.duration(),
  handlingP99Ms: nullable.duration(),
  handlingMaxMs: nullable.duration(),
  handlingTotalMs: duration(),
})

const ACTIVITY = statement(
  'activity_read',
  `
SELECT ${STEP.columns('a')}
FROM sluice.activity($1::text, $2::float8 * interval '1 millisecond', $3::float8 * interval '1 millisecond') a
ORDER BY a.queue, a.at`,
)
