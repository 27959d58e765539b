import type { Times } from './times.ts'

/** What becomes of occurrences that nobody has enqueued in time. */
export type Missed = 'skip' | 'last' | 'all'

/** What is due, and what the schedule says of occurrences that were missed. Instants in milliseconds since 1970. */
export interface DueSchedule {
  /** The occurrence that is due. */
  readonly nextMs: number
  /** By the database's clock. */
  readonly nowMs: number
  readonly missed: Missed
  /** How late an occurrence may be without being missed. */
  readonly graceMs: number
  readonly catchUpMost: number
  readonly catchUpMs: number
}

export interface Decision {
  /** Those to enqueue, ascending. */
  readonly occurrences: readonly number[]
  /** The next one; null if there is none. */
  readonly following: number | null
  /** How many are not enqueued, counted to {@link MOST}. */
  readonly skipped: number
}

/** So many occurrences are looked at, and enqueued, at once. */
export const MOST = 1_000

/**
 * Which occurrences of a schedule are enqueued now. What is no later than the grace is enqueued in any case. Of what is
 * later `skip` enqueues nothing, `all` the latest within bounds, and `last` the last one, unless one is enqueued anyway.
 */
export function decide(times: Times, due: DueSchedule): Decision {
  const { nextMs, nowMs, missed, graceMs, catchUpMost, catchUpMs } = due
  // The one that was announced happens even if this process would have computed another, by other rules of a time zone.
  const all = [nextMs, ...times.between(nextMs, nowMs, MOST)].slice(-MOST)
  const onTime = all.filter((ms) => ms >= nowMs - graceMs)
  const late = all.slice(0, all.length - onTime.length)
  const wanted = missed === 'all' ? catchUpMost : missed === 'last' && onTime.length === 0 ? 1 : 0
  const caught = wanted === 0 ? [] : late.filter((ms) => ms >= nowMs - catchUpMs).slice(-wanted)
  return {
    occurrences: [...caught, ...onTime],
    following: times.after(nowMs),
    skipped: late.length - caught.length,
  }
}
