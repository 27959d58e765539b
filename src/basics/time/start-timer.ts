/** Nearly the longest time that `setTimeout` knows: above 2^31 ms it fires at once. */
export const LONGEST_TIMER_MS = 2_000_000_000

/**
 * `setTimeout` for a time that was computed. One that has passed, or is not a number, would make Node print a warning, and
 * a longer one than {@link LONGEST_TIMER_MS} would end at once: it ends after that.
 */
export function startTimer(work: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(work, ms > 0 ? Math.min(ms, LONGEST_TIMER_MS) : 0)
}
