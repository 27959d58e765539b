import { until } from '../../faults/run/until.ts'

const STEP_MS = 5

/**
 * For what a process of its own has to do, which includes its start. With some forty others on two cores that takes more than
 * twenty seconds. No poll is switched off in such a process, so that a wait of minutes could not mistake it for a wake-up.
 */
export const PROCESS_MS = 90_000

export interface WaitOptions {
  /** What is awaited, for the error: "timed out after 10000 ms waiting for …". */
  readonly what: string
  /** Default 30,000. */
  readonly timeoutMs?: number
}

/** Polls until `condition` gives a truthy value, and returns it. For what has no event to await. */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  { what, timeoutMs = 30_000 }: WaitOptions,
): Promise<NonNullable<Exclude<T, false>>> {
  return until(condition, what, timeoutMs, STEP_MS)
}

/** A promise, and the functions that settle it. */
export function deferred<T = void>(): PromiseWithResolvers<T> {
  return Promise.withResolvers<T>()
}
