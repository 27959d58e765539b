import { existsSync, readFileSync } from 'node:fs'

/** The version of a package that only the benchmark has. */
export function versionOf(name: string): string {
  const manifest = JSON.parse(readFileSync(manifestOf(name), 'utf8')) as { readonly version: string }
  return manifest.version
}

/** Why what needs this package cannot run; undefined if it is installed. */
export function whyMissing(name: string): string | undefined {
  return existsSync(manifestOf(name)) ? undefined : `${name} is not installed: run \`npm ci --prefix bench\``
}

function manifestOf(name: string): URL {
  return new URL(`./node_modules/${name}/package.json`, import.meta.url)
}
