import { type Row, textOf } from '../statement.ts'

/** What a queue has been told: a row of `sluice.queue`. Null: nothing, so the code decides. Times in milliseconds. */
export interface QueueSettings {
  /** Nobody claims while it is paused. */
  readonly paused: QueuePause | null
  /** Of messages that give neither a delay nor a due time. */
  readonly delayMs: number | null
  /** Of messages that give none. */
  readonly ttlMs: number | null
  /** What becomes of a message that has expired. */
  readonly onExpiry: 'drop' | 'dead_letter' | null
  readonly maxAttempts: number | null
  /** The name of a retry policy, or one as the option `retry` of a pipeline, with durations in milliseconds. */
  readonly retry: unknown
  readonly payloadBytes: number | null
  /** For how long messages that have succeeded are kept. */
  readonly historyMs: number | null
  /** For how long dead letters are kept. */
  readonly deadLetterMs: number | null
  /** So many messages may begin per interval. */
  readonly rate: RateLimit | null
  /** The same for those of one tenant. */
  readonly tenantRate: RateLimit | null
  /** So many messages may be in flight, of all processes. */
  readonly concurrency: number | null
  readonly tenantConcurrency: number | null
}

/** Since when a queue is paused, by whom and why. */
export interface QueuePause {
  readonly at: Date
  readonly by: string | null
  readonly reason: string | null
}

/** A token bucket: `limit` tokens per `perMs`, and at most `burst` at once. */
export interface RateLimit {
  readonly limit: number
  readonly perMs: number
  readonly burst: number
}

/** The settings of a queue that has been told nothing. */
export const NO_SETTINGS: QueueSettings = {
  paused: null,
  delayMs: null,
  ttlMs: null,
  onExpiry: null,
  maxAttempts: null,
  retry: null,
  payloadBytes: null,
  historyMs: null,
  deadLetterMs: null,
  rate: null,
  tenantRate: null,
  concurrency: null,
  tenantConcurrency: null,
}

/** A row of `sluice.queue`, as JSON has it. Numbers in it are exact: times are below 2^53 milliseconds. */
export function toQueueSettings(row: Row): QueueSettings {
  return {
    paused: typeof row.paused_at === 'string' ? pauseOf(row, row.paused_at) : null,
    delayMs: numberOrNull(row.delay_ms),
    ttlMs: numberOrNull(row.ttl_ms),
    onExpiry: row.on_expiry === 'drop' || row.on_expiry === 'dead_letter' ? row.on_expiry : null,
    maxAttempts: numberOrNull(row.max_attempts),
    retry: row.retry ?? null,
    payloadBytes: numberOrNull(row.payload_limit_bytes),
    historyMs: numberOrNull(row.history_ms),
    deadLetterMs: numberOrNull(row.dead_letter_retention_ms),
    rate: rateOf(row.rate, row.rate_ms, row.rate_burst),
    tenantRate: rateOf(row.tenant_rate, row.tenant_rate_ms, row.tenant_rate_burst),
    concurrency: numberOrNull(row.concurrency),
    tenantConcurrency: numberOrNull(row.tenant_concurrency),
  }
}

function pauseOf(row: Row, at: string): QueuePause {
  return { at: new Date(at), by: textOrNull(row, 'paused_by'), reason: textOrNull(row, 'pause_reason') }
}

/** Per second, and as many at once as per interval, unless it says otherwise. */
function rateOf(limit: unknown, perMs: unknown, burst: unknown): RateLimit | null {
  if (typeof limit !== 'number') return null
  return { limit, perMs: numberOrNull(perMs) ?? 1_000, burst: numberOrNull(burst) ?? limit }
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

function textOrNull(row: Row, column: string): string | null {
  return row[column] === null || row[column] === undefined ? null : textOf(row, column)
}
