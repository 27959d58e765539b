import { isRefusedByDriver } from '../basics/errors/refused-by-driver.ts'
import { codeOf, stateSays } from '../basics/errors/sql-state.ts'
import { errorsIn, type UnavailableCause, unavailableCause } from '../basics/errors/unavailable-cause.ts'
import { type ErrorCode, isSluiceError } from '../errors.ts'

/**
 * Why the database of an inbox does not take what it has received. A lock or a statement that takes too long, a full pool, a server
 * without room and one that fails over are an outage: they may pass by themselves.
 */
export function databaseCause(thrown: unknown): UnavailableCause {
  return errorsIn(thrown).some(waitsForChange) ? 'settings' : unavailableCause(thrown)
}

function waitsForChange(error: Error): boolean {
  if (isSluiceError(error)) return OF_SETTINGS.includes(error.code)
  return stateSays('waitsForChange', codeOf(error)) || isRefusedByDriver(error)
}

/** A message whose payload is refused becomes a dead letter: here the server refuses that as well. */
const OF_SETTINGS: readonly ErrorCode[] = [
  'SCHEMA_MISSING',
  'SCHEMA_TOO_OLD',
  'SCHEMA_TOO_NEW',
  'SCHEMA_UNRELEASED',
  'SERVER_TOO_OLD',
  'PRIVILEGE_MISSING',
  'QUEUE_UNKNOWN',
  'PAYLOAD_INVALID',
  'PAYLOAD_TOO_LARGE',
]
