import { Cron } from 'croner'
import type { Times } from './times.ts'

/**
 * The occurrences of a cron expression of five fields, six (with seconds) or seven (with years too).
 *
 * Where clocks are turned forward, a fixed time that does not exist comes at the end of the gap. Where they are turned back, a
 * fixed time comes once, the first time, and what has a step, a range or a wildcard goes on through both hours. A list of
 * fixed times is one of these.
 *
 * @throws RangeError or TypeError with words that say what is wrong
 */
export function cronTimes(expression: string, zone: string): Times {
  // croner notices a wrong zone only when it computes, and in words that say everything twice.
  new Intl.DateTimeFormat('en', { timeZone: zone })
  const cron = new Cron(expression, {
    timezone: zone,
    fixedTimeRule: hasRange(expression) ? 'single-value' : 'no-wildcard',
  })
  const after = (ms: number) => cron.nextRun(new Date(ms))?.getTime() ?? null
  return { after, between: (afterMs, untilMs, most) => between(cron, after, { afterMs, untilMs, most }) }
}

/** Whether the time of day has a range: croner would take that for a list of fixed times. */
function hasRange(expression: string): boolean {
  const fields = expression.trim().split(/ +/)
  return fields.slice(0, fields.length > 5 ? 3 : 2).some((field) => field.includes('-'))
}

interface Span {
  readonly afterMs: number
  readonly untilMs: number
  readonly most: number
}

/** Most spans hold one occurrence or none. Of a long one, which has stood still, only the end is computed: 50 µs for each. */
function between(cron: Cron, after: Times['after'], { afterMs, untilMs, most }: Span): readonly number[] {
  const found: number[] = []
  for (let at = after(afterMs); at !== null && at <= untilMs; at = after(at)) {
    found.push(at)
    if (found.length > FORWARD) return latest(cron, { afterMs, untilMs, most })
  }
  return found.slice(-most)
}

const FORWARD = 64

function latest(cron: Cron, { afterMs, untilMs, most }: Span): readonly number[] {
  // Backwards from the next whole second, which is not counted.
  const from = new Date((Math.floor(untilMs / 1_000) + 1) * 1_000)
  return cron
    .previousRuns(most, from)
    .map((run) => run.getTime())
    .filter((ms) => ms > afterMs)
    .reverse()
}
