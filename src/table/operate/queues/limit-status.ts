import { duration, nullable, number, shape, text } from '../../shape.ts'
import { type Execute, statement } from '../../statement.ts'

/** What a limit allows, and what is used of it: a row of `sluice.limits`. */
export interface LimitStatus {
  /** The name of the queue. */
  readonly queue: string
  /** The tenant; null: the queue as a whole. */
  readonly tenant: string | null
  /** How many messages may be in flight; null: no limit. */
  readonly concurrency: number | null
  /** How many are. */
  readonly inFlight: number
  /** How many messages may begin per {@link rateIntervalMs}; null: no limit. */
  readonly rate: number | null
  readonly rateIntervalMs: number
  /** How many may begin now; null: no limit. */
  readonly tokens: number | null
  /** Due, and not in flight: with a limit that is used up, they wait for it. */
  readonly ready: number
}

/** The limits of all queues, or of one, with those of their tenants. Counts the messages of these queues. */
export async function readLimits(execute: Execute, queue: string | null): Promise<readonly LimitStatus[]> {
  return (await execute(LIMITS, [queue])).map(LIMIT.read)
}

const LIMIT = shape<LimitStatus>({
  queue: text(),
  tenant: nullable.text(),
  concurrency: nullable.number(),
  inFlight: number(),
  rate: nullable.number(),
  rateIntervalMs: duration(),
  tokens: nullable.number(),
  ready: number(),
})

const LIMITS = statement(
  'operate_limits',
  `
SELECT ${LIMIT.columns('l')}
FROM sluice.limits l
WHERE $1::text IS NULL OR l.queue = $1::text
ORDER BY l.queue, l.tenant NULLS FIRST`,
)
