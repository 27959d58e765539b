import { booleanOf, type Execute, numberOrNull, type Row, statement, textOf, textOrNull } from '../statement.ts'
import { dateOf, dateOrNull, durationOrNull, microseconds } from './instants.ts'

/**
 * What a queue has been told: a row of `sluice.queue_settings`. Null where it has been told nothing, so that the code
 * decides.
 */
export interface QueueSettingsStatus {
  /** The name of the queue. */
  readonly queue: string
  /** Since when nobody claims from it; null: it is not paused. */
  readonly pausedAt: Date | null
  /** Who has paused it. */
  readonly pausedBy: string | null
  /** Why. */
  readonly pauseReason: string | null
  /** After how long a message is due that gives neither a delay nor a due time. */
  readonly delayMs: number | null
  /** For how long after it is due a message may be delivered that gives no time of its own. */
  readonly ttlMs: number | null
  /** What becomes of a message that has expired. */
  readonly onExpiry: 'drop' | 'deadLetter' | null
  /** After how many failed attempts a message becomes a dead letter that has no limit of its own. */
  readonly maxAttempts: number | null
  /** The name of a retry policy, or one as the option `retry` of a pipeline, with times in milliseconds. */
  readonly retry: unknown
  /** The largest payload in bytes of JSON. */
  readonly payloadLimitBytes: number | null
  /** For how long messages that have succeeded are kept. */
  readonly historyMs: number | null
  /** For how long dead letters are kept. */
  readonly deadLetterRetentionMs: number | null
  /** How many messages may begin per time. */
  readonly rate: RateStatus | null
  /** The same for those of one tenant. */
  readonly tenantRate: RateStatus | null
  /** How many messages may be in flight, of all processes. */
  readonly concurrency: number | null
  /** The same for those of one tenant. */
  readonly tenantConcurrency: number | null
  /** When it was told something last. */
  readonly changedAt: Date
  /** Who told it: a name that was given, or else the database user. */
  readonly changedBy: string | null
}

/** `limit` messages per `perMs`; `burst` at once after a pause, null: as many as `limit`. */
export interface RateStatus {
  readonly limit: number
  readonly perMs: number
  readonly burst: number | null
}

/** What queues have been told, by name; of one queue only, if it is given. */
export async function readQueueSettings(
  execute: Execute,
  queue: string | null,
): Promise<readonly QueueSettingsStatus[]> {
  return (await execute(READ, [queue])).map(toStatus)
}

/** Tells a queue settings, in the form of `sluice.queue_set`. */
export async function setQueue(execute: Execute, queue: string, settings: object, by: string | null): Promise<void> {
  await execute(SET, [queue, JSON.stringify(settings), by])
}

/** Pauses a queue. Resolves with whether it went on before. */
export async function pauseQueue(
  execute: Execute,
  queue: string,
  by: string | null,
  reason: string | null,
): Promise<boolean> {
  return changed(await execute(PAUSE, [queue, by, reason]))
}

/** Ends the pause of a queue. Resolves with whether it was paused. */
export async function resumeQueue(execute: Execute, queue: string, by: string | null): Promise<boolean> {
  return changed(await execute(RESUME, [queue, by]))
}

function changed([row]: readonly Row[]): boolean {
  if (row === undefined) throw new TypeError('expected whether something has changed')
  return booleanOf(row, 'changed')
}

function toStatus(row: Row): QueueSettingsStatus {
  const rate = (name: string) => {
    const limit = numberOrNull(row, name)
    return limit === null
      ? null
      : { limit, perMs: numberOrNull(row, `${name}_per_ms`) ?? 1_000, burst: numberOrNull(row, `${name}_burst`) }
  }
  const onExpiry = textOrNull(row, 'on_expiry')
  const retry = textOrNull(row, 'retry')
  return {
    queue: textOf(row, 'queue'),
    pausedAt: dateOrNull(row, 'paused_us'),
    pausedBy: textOrNull(row, 'paused_by'),
    pauseReason: textOrNull(row, 'pause_reason'),
    delayMs: durationOrNull(row, 'delay_ms'),
    ttlMs: durationOrNull(row, 'ttl_ms'),
    onExpiry: onExpiry === 'dead_letter' ? 'deadLetter' : onExpiry === 'drop' ? 'drop' : null,
    maxAttempts: numberOrNull(row, 'max_attempts'),
    retry: retry === null ? null : JSON.parse(retry),
    payloadLimitBytes: numberOrNull(row, 'payload_limit_bytes'),
    historyMs: durationOrNull(row, 'history_ms'),
    deadLetterRetentionMs: durationOrNull(row, 'dead_letter_retention_ms'),
    rate: rate('rate'),
    tenantRate: rate('tenant_rate'),
    concurrency: numberOrNull(row, 'concurrency'),
    tenantConcurrency: numberOrNull(row, 'tenant_concurrency'),
    changedAt: dateOf(row, 'changed_us'),
    changedBy: textOrNull(row, 'changed_by'),
  }
}

const ms = (column: string) => `(extract(epoch FROM s.${column}) * 1000.0)::bigint AS ${column}_ms`

const READ = statement(
  'operate_queue_settings',
  `
SELECT s.queue, ${microseconds('s.paused_at')} AS paused_us, s.paused_by, s.pause_reason, ${ms('delay')}, ${ms('ttl')}, s.on_expiry,
       s.max_attempts, s.retry::text AS retry, s.payload_limit_bytes, ${ms('history')}, ${ms('dead_letter_retention')},
       s.rate, ${ms('rate_per')}, s.rate_burst, s.tenant_rate, ${ms('tenant_rate_per')}, s.tenant_rate_burst,
       s.concurrency, s.tenant_concurrency, ${microseconds('s.changed_at')} AS changed_us, s.changed_by
FROM sluice.queue_settings s
WHERE $1::text IS NULL OR s.queue = $1::text
ORDER BY s.queue`,
)

const SET = statement('queue_set', 'SELECT sluice.queue_set($1::text, $2::text::jsonb, $3::text)')

const PAUSE = statement('queue_pause', 'SELECT sluice.pause($1::text, $2::text, $3::text) AS changed')

const RESUME = statement('queue_resume', 'SELECT sluice.resume($1::text, $2::text) AS changed')
