import type { RetryPolicy } from '../retry-policy.ts'

/** How often a webhook is tried: for three days, so that a server may be down over a weekend. */
export const WEBHOOK_ATTEMPTS = 10

/** The waits after each failed attempt, each up to 20 % shorter by chance, so that a backlog does not come back at once. */
export function webhookRetry(random: () => number): RetryPolicy {
  return (attempt) => {
    const wait = WAITS_MS[Math.min(attempt, WAITS_MS.length) - 1] ?? SECOND
    return wait * (1 - JITTER * random())
  }
}

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const WAITS_MS = [
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
] as const
const JITTER = 0.2
