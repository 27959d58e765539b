import { hasSqlState, INSUFFICIENT_PRIVILEGE } from '../basics/errors/sql-state.ts'
import { pause } from '../basics/time/pause.ts'
import type { Execute } from '../table/statement.ts'
import { detachSegment, dropSegment, type LeavingSegment, lockLeaving, readLeaving } from '../table/stream/segments.ts'

/**
 * Runs statements outside of transactions, on a connection of their own, which is cut if the signal aborts. `shared`: its
 * server session belongs to others too, and nothing may be left in it.
 */
export type InSession = <T>(work: (execute: Execute, shared: boolean) => Promise<T>, signal?: AbortSignal) => Promise<T>

/**
 * Drops the segments that have been marked, the oldest of each stream first. What cannot be done now, because a batch has the
 * stream open, is left to the next pass. Returns how many, and whether any is left.
 *
 * To detach a segment without taking the stream needs a limit of time and a lock that are the session's. In a shared session
 * the segment is detached as by a worker that does not own the tables.
 */
export async function dropSegments(
  inSession: InSession,
  signal?: AbortSignal,
): Promise<{ readonly dropped: number; readonly left: number }> {
  return inSession(async (execute, shared) => {
    if (!shared && !(await lockLeaving(execute))) return { dropped: 0, left: 1 }
    const leaving = await readLeaving(execute)
    const stuck = new Set<number>()
    let dropped = 0
    for (const segment of leaving) {
      // The oldest first: what a group has lost is a range.
      if (signal?.aborted || stuck.has(segment.streamId)) continue
      if (await dropOne(execute, segment, shared)) dropped += 1
      else stuck.add(segment.streamId)
    }
    return { dropped, left: leaving.length - dropped }
  }, signal)
}

async function dropOne(execute: Execute, segment: LeavingSegment, shared: boolean): Promise<boolean> {
  try {
    if (!shared && segment.state !== 'detached') await detachSegment(execute, segment)
  } catch (error) {
    // A batch lasts for long. The segment stays marked, or half detached.
    if (isBusy(error)) return false
    if (!hasSqlState(error, INSUFFICIENT_PRIVILEGE)) throw error
  }
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      return await dropSegment(execute, segment)
    } catch (error) {
      if (!isBusy(error)) throw error
      await pause(PAUSE_MS)
    }
  }
  return false
}

/** lock_not_available, query_canceled by a timeout, deadlock_detected */
function isBusy(error: unknown): boolean {
  return ['55P03', '57014', '40P01'].some((state) => hasSqlState(error, state))
}

const TRIES = 10
const PAUSE_MS = 200
