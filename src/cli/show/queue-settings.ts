import type { QueueSettingsStatus, RateStatus } from '../../index.ts'
import { formatAgo, oneLine, UNITS } from './text.ts'

/** What a queue has been told, without its pause, as it is given on the command line: `ttl 7d, max-attempts 5`. */
export function settingsText(settings: QueueSettingsStatus): string {
  return settingsOf(settings)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')
}

/** Each setting with its value, as options of `sluice queue set` take it. */
export function settingsOf(settings: QueueSettingsStatus): readonly (readonly [string, string])[] {
  const { retry } = settings
  const all: readonly (readonly [string, string | number | null])[] = [
    ['delay', time(settings.delayMs)],
    ['ttl', time(settings.ttlMs)],
    ['on-expiry', settings.onExpiry],
    ['max-attempts', settings.maxAttempts],
    ['retry', retry === null || typeof retry === 'string' ? retry : JSON.stringify(retry)],
    ['payload-limit-bytes', settings.payloadLimitBytes],
    ['history', time(settings.historyMs)],
    ['dead-letter-retention', time(settings.deadLetterRetentionMs)],
    ['rate', rate(settings.rate)],
    ['tenant-rate', rate(settings.tenantRate)],
    ['concurrency', settings.concurrency],
    ['tenant-concurrency', settings.tenantConcurrency],
  ]
  return all.flatMap(([name, value]) => (value === null ? [] : [[name, String(value)]]))
}

/** `since 5m ago by ada: the mail provider is down`; null: the queue is not paused. */
export function pauseText({ pausedAt, pausedBy, pauseReason }: QueueSettingsStatus, at: Date): string | null {
  if (pausedAt === null) return null
  const who = pausedBy === null ? '' : ` by ${oneLine(pausedBy, 60)}`
  const why = pauseReason === null ? '' : `: ${oneLine(pauseReason)}`
  return `${formatAgo(Math.max(0, at.getTime() - pausedAt.getTime()))}${who}${why}`
}

function rate(given: RateStatus | null): string | null {
  if (given === null) return null
  return `${given.limit}/${time(given.perMs)}${given.burst === null ? '' : `/${given.burst}`}`
}

/** In the largest unit that makes it a whole number: `7d`, `90m`, `1500ms`. */
function time(ms: number | null): string | null {
  if (ms === null) return null
  const [unit, size] = UNITS.find(([, one]) => ms > 0 && ms % one === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}
