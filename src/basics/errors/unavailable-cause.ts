import { isSluiceError } from '../../errors.ts'

/**
 * Why a broker, or the database of an inbox, is of no use. `outage`: it cannot be reached, gives no answer or has no room now,
 * and may be back by itself. `settings`: it waits for a change by hand, because what it is asked for does not exist there, the
 * login is refused or may not do it, or a certificate is not trusted.
 */
export type UnavailableCause = 'outage' | 'settings'

/** What an error of an adapter says: OPTION_INVALID, and an error of a certificate, are of the settings. */
export function unavailableCause(thrown: unknown): UnavailableCause {
  return errorsIn(thrown).some(isOfSettings) ? 'settings' : 'outage'
}

/** An error, its causes, and those that it puts together, as where several servers were tried. */
export function errorsIn(thrown: unknown): readonly Error[] {
  const found = new Set<Error>()
  const look = (at: unknown) => {
    if (!(at instanceof Error) || found.has(at)) return
    found.add(at)
    look(at.cause)
    if (at instanceof AggregateError && Array.isArray(at.errors)) at.errors.forEach(look)
  }
  try {
    look(thrown)
  } catch {
    // A proxy whose traps throw.
  }
  return [...found]
}

function isOfSettings(error: Error): boolean {
  return isSluiceError(error, 'OPTION_INVALID') || ('code' in error && OF_CERTIFICATES.test(String(error.code)))
}

/** Node's codes for a certificate that either side does not trust, and for TLS with a server that speaks none. */
const OF_CERTIFICATES =
  /CERT|^(UNABLE_TO_VERIFY_LEAF_SIGNATURE|INVALID_CA|HOSTNAME_MISMATCH|ERR_SSL_WRONG_VERSION_NUMBER)$|^ERR_SSL_.*_UNKNOWN_CA$/
