import pg from 'pg'
import { isRefusedByDriver } from '../basics/errors/refused-by-driver.ts'
import { stateSays } from '../basics/errors/sql-state.ts'
import { isSluiceError } from '../errors.ts'

/**
 * Whether the next attempt to connect may succeed: no server answers, or the server starts, stops, fails over or has no
 * room. A missing schema, a refused login, a database that does not exist and a certificate that does not fit stay as
 * they are until somebody changes them.
 */
export function mayPass(error: unknown): boolean {
  if (!isSluiceError(error)) return error instanceof pg.DatabaseError && stateSays('passing', error.code)
  if (error.code !== 'UNREACHABLE') return false
  const { cause } = error
  if (cause instanceof pg.DatabaseError) return stateSays('passing', cause.code)
  if (!(cause instanceof Error) || cause instanceof TypeError) return false
  // A file of a certificate or a key, which cannot be read.
  if ('syscall' in cause && cause.syscall === 'open') return false
  if ('code' in cause && cause.code !== undefined) return SYSTEM_CODE.test(String(cause.code))
  return !isRefusedByDriver(cause)
}

/** ECONNREFUSED, ENOTFOUND, EAI_AGAIN and the like; not those of TLS, such as ERR_TLS_CERT_ALTNAME_INVALID. */
const SYSTEM_CODE = /^E(?!RR_)[A-Z_]+$/
