import { ignoreRejection } from '../basics/promises/ignore-rejection.ts'
import { FALLBACK_RETRY_MS, type RetryPolicy } from '../retry-policy.ts'

/** In how many milliseconds a policy has a message tried again; `failed` hears of one that throws, or returns no such time. */
export function retryInMs(
  policy: RetryPolicy,
  attempt: number,
  error: unknown,
  failed: (thrown: unknown) => void,
): number {
  try {
    const ms = policy(attempt, error)
    ignoreRejection(ms)
    if (ms >= 0 && Number.isFinite(ms)) return ms
    throw new TypeError(`expected milliseconds from 0, received ${ms}`)
  } catch (thrown) {
    failed(thrown)
    return FALLBACK_RETRY_MS
  }
}
