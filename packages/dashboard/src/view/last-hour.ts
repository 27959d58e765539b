// The hour that charts show, by minutes.

export const MINUTES = 60
export const MINUTE_MS = 60_000

/** When the first of them begins. */
export function firstMinute(now: Date): number {
  return Math.floor(now.getTime() / MINUTE_MS) * MINUTE_MS - (MINUTES - 1) * MINUTE_MS
}
