import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild'

/** `basics/kysely.ts` is `#kysely` of package.json, which is not the same file for Node and for a bundler. */
export const LATE_KYSELY: Plugin = {
  name: 'late Kysely',
  setup({ onResolve }) {
    onResolve({ filter: /\/basics\/kysely\.ts$/ }, () => ({ path: '#kysely', external: true }))
  },
}

/**
 * Writes `basics/kysely.ts` with Kysely as a file of its own, which Node reads when the function is called first: most
 * workers never do, and 490 KB take V8 6 ms even if it only skims them. Bundlers cannot follow a `createRequire`, so they
 * get an import of the same file. It is in a function, because its 300 modules would run with the import.
 */
export async function writeKysely(options: BuildOptions, folder: string): Promise<Metafile> {
  const { outputFiles, metafile } = await build({
    ...options,
    entryPoints: ['src/basics/kysely.ts'],
    bundle: true,
    format: 'cjs',
    write: false,
    metafile: true,
  })
  writeFileSync(join(folder, 'kysely.cjs'), inFunction(outputFiles[0]?.text ?? ''))
  writeFileSync(join(folder, 'kysely-in-node.js'), IN_NODE)
  writeFileSync(join(folder, 'kysely-in-bundles.js'), IN_BUNDLES)
  return metafile
}

function inFunction(program: string): string {
  return `
let loaded
exports.kysely = () => {
  loaded ??= run()
  return loaded.kysely()
}
function run() {
  const module = {}
${program}
  return module.exports
}
`
}

const IN_NODE = `
export const kysely = () => {
  const { createRequire } = process.getBuiltinModule('node:module')
  return createRequire(import.meta.url)('./kysely.cjs').kysely()
}
`

const IN_BUNDLES = `
import late from './kysely.cjs'
export const kysely = () => late.kysely()
`
