import type { Times } from './times.ts'

/** What happens to occurrences that were not enqueued in time. */
export type Missed = 'skip' | 'last' | 'all'

/** What is due, and what the schedule says of occurrences that were missed. Instants in milliseconds since 1970. */
export interface DueSchedule {
  /** The occurrence that is due. */
  readonly nextMs: number
  /** By the database's clock, or {@link judgedAt}. */
  readonly nowMs: number
  readonly missed: Missed
  /** How late an occurrence may be without being missed. */
  readonly graceMs: number
  readonly catchUpMost: number
  readonly catchUpMs: number
}

export interface ScheduleDecision {
  /** Those to enqueue, ascending. */
  readonly occurrences: readonly number[]
  /** The next one; null if there is none. */
  readonly following: number | null
  /** How many were missed and are not enqueued, counted to {@link MOST}. */
  readonly skipped: number
}

/** The most occurrences that are enqueued at once, and the most missed ones that are counted. */
export const MOST = 1_000

/**
 * Which occurrences of a schedule are enqueued now. What is no later than the grace is enqueued in any case; of more than
 * {@link MOST} the first, and the next look goes on with the others. Of what is later `skip` enqueues nothing, `all` the
 * latest within bounds, and `last` the last one, unless one is enqueued anyway.
 */
export function decide(times: Times, due: DueSchedule): ScheduleDecision {
  const { nowMs, missed, catchUpMost, catchUpMs } = due
  const late = lateOf(times, due)
  const inTime = inTimeOf(times, due)
  const wanted = missed === 'all' ? catchUpMost : missed === 'last' && inTime.length === 0 ? 1 : 0
  const caught = wanted === 0 ? [] : late.filter((ms) => ms >= nowMs - catchUpMs).slice(-wanted)
  const all = [...caught, ...inTime]
  return {
    occurrences: all.slice(0, MOST),
    following: all[MOST] ?? times.after(nowMs),
    skipped: late.length - caught.length,
  }
}

/**
 * The latest of those that were missed. The one that was announced counts also if this process would have computed another.
 */
function lateOf(times: Times, due: DueSchedule): readonly number[] {
  const endMs = graceBegins(due)
  if (due.nextMs >= endMs) return []
  return [due.nextMs, ...times.between(due.nextMs, endMs - 1, MOST)].slice(-MOST)
}

/** The first of those that are no later than the grace, and one more than are enqueued at once. */
function inTimeOf(times: Times, due: DueSchedule): readonly number[] {
  const beginMs = graceBegins(due)
  const found: number[] = []
  let at = due.nextMs >= beginMs ? due.nextMs : times.after(beginMs - 1)
  for (; at !== null && at <= due.nowMs && found.length <= MOST; at = times.after(at)) found.push(at)
  return found
}

function graceBegins({ nowMs, graceMs }: DueSchedule): number {
  return Math.ceil(nowMs - graceMs)
}

/**
 * By which time a process judges what a schedule has missed, if it has looked without a rest since an instant. What was in
 * time then is so still, and so is what has fallen due since: others were before it.
 */
export function judgedAt({ nextMs, nowMs, graceMs }: DueSchedule, lookingSinceMs: number): number {
  return Math.min(nowMs, Math.max(lookingSinceMs, nextMs + graceMs))
}
