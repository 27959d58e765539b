import { readFileSync } from 'node:fs'

/** The version of a package that is installed here. */
export function versionOf(name: string): string {
  const file = new URL(`../../node_modules/${name}/package.json`, import.meta.url)
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }
  return manifest.version
}
