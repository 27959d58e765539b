import { loginOf } from '../basics/errors/login-of.ts'
import { codeOf, INSUFFICIENT_PRIVILEGE } from '../basics/errors/sql-state.ts'
import { wordsOf } from '../basics/errors/words-of.ts'
import { SluiceError } from '../errors.ts'

/** The error of a worker, or, if its login lacks privileges, one that says what to grant. */
export function orPrivilegeMissing(error: unknown): unknown {
  return codeOf(error) === INSUFFICIENT_PRIVILEGE ? privilegeMissing('sluice_worker', error) : error
}

/** @param role the one that has the missing privileges. */
export function privilegeMissing(
  role: 'sluice_producer' | 'sluice_worker' | 'sluice_reader' | 'sluice_operator' | 'sluice_admin' | 'sluice_claimer',
  cause: unknown,
): SluiceError {
  const login = loginOf(cause)?.user
  const grant = login === undefined ? `\`GRANT ${role} TO …\` for the login` : `\`GRANT ${role} TO ${quoted(login)}\``
  const remedy = `Run \`npx sluice roles\` as the owner of schema "sluice", and then ${grant}`
  const what = `The login lacks privileges of ${role}: ${wordsOf(cause)}`
  return new SluiceError('PRIVILEGE_MISSING', `${what}. ${remedy}`, { cause })
}

/** Quoted always: a login may be named `user`. */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
