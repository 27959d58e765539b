/** "permission denied" */
export const INSUFFICIENT_PRIVILEGE = '42501'

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
