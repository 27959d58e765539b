/** What a failure says about whatever was tried, by SQLSTATE: a class, or one state. */
const STATES = {
  /**
   * Nothing about a row: connections, transaction states such as a standby's, resources, locks of other sessions,
   * administrators and the system; and names of statements that a pooler mixes up.
   */
  ofTheServer: /^(08|25|53|55P03|57P|58|26000|42P05)/,
  /**
   * A later attempt to connect may succeed: also after a rollback by the server, and on a server that is still a standby.
   */
  passing: /^(08|40|53|55|57|58)|^25006$/,
  /**
   * It stays so until somebody changes it: a login, a privilege, a database, a schema, table or function that is missing, and a
   * constraint or trigger that refuses. Not the names of statements that a pooler mixes up.
   */
  waitsForChange: /^(22|23|28|3D|3F|42(?!P05)|44|54|P0)/,
  /**
   * It may come when COMMIT has taken effect: the transaction was over, or the connection, the server or the system failed.
   */
  maybeAfterCommit: /^(08|25P0[34]|53|57|58|XX)/,
  /** An administrator, or a job, ended the session; its database was dropped; or a limit for transactions was reached. */
  endsSession: /^(57P01|57P04|57P05|25P03|25P04)$/,
  /** The transaction is aborted, or has no such savepoint: an earlier error says why. */
  ofEarlierError: /^(25P02|3B001)$/,
} as const

/** Whether a SQLSTATE says that; false without one. */
export function stateSays(what: keyof typeof STATES, state: string | undefined): boolean {
  return state !== undefined && STATES[what].test(state)
}

/** "permission denied" */
export const INSUFFICIENT_PRIVILEGE = '42501'

/** A schema or a table is missing. */
export const SCHEMA_OR_TABLE_MISSING = ['3F000', '42P01'] as const

/** What every statement after a failed one fails with. */
export const IN_FAILED_TRANSACTION = '25P02'

/** Two transactions waited for each other, and the server has ended one of them. */
export const DEADLOCK_DETECTED = '40P01'

/** A lock was not to be had in the time that a statement may wait for it. */
export const LOCK_NOT_AVAILABLE = '55P03'

/** The SQLSTATE of the driver's own error, or the code of a system error. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

/**
 * Whether an error carries this SQLSTATE, in whatever a client wraps the server's error: as `code` (pg, postgres.js,
 * Knex, TypeORM), in `cause` (Drizzle) or in `meta` (Prisma).
 */
export function hasSqlState(error: unknown, state: string): boolean {
  return search(error, state, WRAPPINGS)
}

const WRAPPINGS = 5

function search(value: unknown, state: string, depth: number): boolean {
  if (typeof value !== 'object' || value === null || depth === 0) return false
  if ('code' in value && value.code === state) return true
  if ('originalCode' in value && value.originalCode === state) return true
  return ['cause', 'meta', 'driverAdapterError'].some((key) => search(Reflect.get(value, key), state, depth - 1))
}
