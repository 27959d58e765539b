import { codeOf } from '../basics/sql-state.ts'
import { errorText, SluiceError } from '../errors.ts'

/** A worker's error: in words that say what to grant, if the server has refused it for want of privileges. */
export function orPrivilegeMissing(error: unknown): unknown {
  return codeOf(error) === INSUFFICIENT_PRIVILEGE ? privilegeMissing('sluice_worker', error) : error
}

/** @param role which has what is missing. */
export function privilegeMissing(
  role: 'sluice_producer' | 'sluice_worker' | 'sluice_reader' | 'sluice_operator',
  cause: unknown,
): SluiceError {
  const remedy = `Run \`npx sluice roles\` as the owner of schema "sluice", and then \`GRANT ${role} TO …\` for the login`
  const words = cause instanceof Error ? cause.message : errorText(cause)
  const what = `The login lacks privileges of ${role}: ${words}`
  return new SluiceError('PRIVILEGE_MISSING', `${what}. ${remedy}`, { cause })
}

const INSUFFICIENT_PRIVILEGE = '42501'
