import { createHash } from 'node:crypto'
import { hasSqlState } from '../basics/errors/sql-state.ts'
import type { Statement } from '../table/statement.ts'

/**
 * The name under which a statement is prepared. It ends in a hash of the text: the same name is the same statement,
 * whichever version has prepared it. Without names the server parses and plans each statement anew, and handles a third
 * to two thirds as many messages.
 */
export function nameOf(statement: Statement): string {
  const known = NAMES.get(statement)
  if (known !== undefined) return known
  const name = `${statement.name}_${createHash('sha256').update(statement.text).digest('hex').slice(0, 8)}`
  NAMES.set(statement, name)
  return name
}

/** "prepared statement … does not exist", "… already exists". */
export function isAboutNames(error: unknown): boolean {
  return hasSqlState(error, '26000') || hasSqlState(error, '42P05')
}

/** The same for all sessions: a hash for each statement that is sent would cost more than the lookup. */
const NAMES = new WeakMap<Statement, string>()
