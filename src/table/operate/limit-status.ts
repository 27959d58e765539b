import { type Execute, numberOf, numberOrNull, statement, textOf, textOrNull } from '../statement.ts'

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
  /** Due, and in nobody's hands: with a limit that is used up, they wait for it. */
  readonly ready: number
}

/** The limits of all queues, or of one, with those of their tenants. Counts the messages of these queues. */
export async function readLimits(execute: Execute, queue: string | null): Promise<readonly LimitStatus[]> {
  const rows = await execute(LIMITS, [queue])
  return rows.map((row) => ({
    queue: textOf(row, 'queue'),
    tenant: textOrNull(row, 'tenant'),
    concurrency: numberOrNull(row, 'concurrency'),
    inFlight: numberOf(row, 'in_flight'),
    rate: numberOrNull(row, 'rate'),
    rateIntervalMs: numberOf(row, 'rate_interval_ms'),
    tokens: numberOrNull(row, 'tokens'),
    ready: numberOf(row, 'ready'),
  }))
}

const LIMITS = statement(
  'operate_limits',
  `
SELECT l.queue, l.tenant, l.concurrency, l.in_flight, l.rate, (extract(epoch FROM l.rate_interval) * 1000.0) AS rate_interval_ms,
       l.tokens, l.ready
FROM sluice.limits l
WHERE $1::text IS NULL OR l.queue = $1::text
ORDER BY l.queue, l.tenant NULLS FIRST`,
)
