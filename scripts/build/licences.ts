import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Metafile } from 'esbuild'

/** The licences of the packages from which something was built. */
export function licencesOf(metafiles: readonly Metafile[]): string {
  const inputs = metafiles.flatMap((metafile) => Object.keys(metafile.inputs))
  const packages = inputs.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? [])
  return [...new Set(packages)].map(licenceOf).join('\n\n')
}

function licenceOf(folder: string): string {
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const file = readdirSync(folder).find((entry) => /^licen[sc]e/i.test(entry))
  if (file === undefined) throw new Error(`${folder}: expected a licence`)
  return `${name} ${version}\n\n${readFileSync(join(folder, file), 'utf8').trim().replaceAll('*/', '* /')}`
}
