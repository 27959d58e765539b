import pg from 'pg'
import { stateSays } from '../basics/errors/sql-state.ts'
import { isSluiceError } from '../errors.ts'

/**
 * Whether the database refuses to write something, for a reason that may lie in its row: a policy, a trigger, a
 * constraint. Not for want of a connection, of space, of a lock, or of a server that takes writes.
 */
export function isRefusal(error: unknown): boolean {
  if (isSluiceError(error, 'ROWS_MISSING')) return true
  // A server that refuses the login has seen no row.
  if (isSluiceError(error, 'UNREACHABLE')) return false
  const said = serverErrorOf(error)
  return said !== undefined && !stateSays('ofTheServer', said.code)
}

/** The server's own error, in whatever wraps it; undefined: it said nothing. */
export function serverErrorOf(error: unknown): pg.DatabaseError | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (at instanceof pg.DatabaseError) return at
  }
  return undefined
}
