import type { Times, Timing } from './times.ts'

/**
 * The occurrences of a schedule. croner is loaded with the first cron expression.
 *
 * @throws RangeError or TypeError with words that say what is wrong with the expression or the zone
 */
export async function timesOf(timing: Timing): Promise<Times> {
  if (timing.cron === null) return every(timing.everyMs)
  const { cronTimes } = await import('./cron-times.ts')
  return cronTimes(timing.cron, timing.zone)
}

/** The multiples of the interval since 1970: the same for every process, whenever the schedule was defined. */
function every(everyMs: number): Times {
  const after = (ms: number) => (Math.floor(ms / everyMs) + 1) * everyMs
  return {
    after,
    between(afterMs, untilMs, most) {
      const last = Math.floor(untilMs / everyMs)
      const first = Math.max(Math.floor(afterMs / everyMs) + 1, last - most + 1)
      return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => (first + at) * everyMs)
    },
  }
}
