import { SluiceError } from '../../errors.ts'

/** As `engines` of package.json says. */
export const OLDEST_NODE = '22.12'

/**
 * Older versions lack what a batch needs, and would fail at the first one.
 *
 * @throws SluiceError NODE_TOO_OLD
 */
export function checkNode(version: string = process.versions.node): void {
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE.split('.').map(Number)
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return
  throw new SluiceError(
    'NODE_TOO_OLD',
    `Node: expected version ${OLDEST_NODE} or later, received ${version}. Upgrade Node`,
  )
}
