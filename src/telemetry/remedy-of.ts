import { DEADLOCK_DETECTED, hasSqlState } from '../basics/errors/sql-state.ts'

/** What to do about the cause of a failed attempt, where its own words lead nowhere. */
export function remedyOf(cause: Error | undefined): string {
  try {
    return hasSqlState(cause, DEADLOCK_DETECTED) ? DEADLOCK : ''
  } catch {
    // An error of a handler may have any `code`: a getter that throws.
    return ''
  }
}

const DEADLOCK =
  '. In transactional mode a batch keeps the row locks of its handlers until it ends: see docs/guides/workers.md#row-locks-and-deadlocks'
