import { hostname, userInfo } from 'node:os'

/** The option `--by`, whose default is {@link whoever}. */
export const BY = 'your name, for others to see (default: user@host)'

/** Who runs the command: actions are noted under this name. */
export function whoever(): string {
  return nameHere().slice(0, 200)
}

function nameHere(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    // A container may have no name for its user.
    return hostname()
  }
}
