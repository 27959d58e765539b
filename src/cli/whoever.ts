import { hostname, userInfo } from 'node:os'

/** The option `--by`, whose default is {@link whoever}. */
export const BY = 'who it is, for others to see; without it, you and this machine'

/** Who runs the command. */
export function whoever(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    // A container may have no name for its user.
    return hostname()
  }
}
