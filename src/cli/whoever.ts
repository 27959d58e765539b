import { hostname, userInfo } from 'node:os'

/** The option `--by`, whose default is {@link whoever}. */
export const BY = 'your name, for others to see (default: user@host)'

/** Who runs the command. */
export function whoever(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    // A container may have no name for its user.
    return hostname()
  }
}
