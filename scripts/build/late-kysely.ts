import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild'

/**
 * Puts `basics/kysely.ts`, with Kysely, into a function: V8 only skims what it does not run. As modules, Kysely runs 300
 * files before the first message.
 *
 * @param options of the build
 * @param built called with the metafile of the inner build
 */
export function lateKysely(options: BuildOptions, built: (metafile: Metafile) => void): Plugin {
  return {
    name: 'late Kysely',
    setup({ onLoad }) {
      onLoad({ filter: /[\\/]basics[\\/]kysely\.ts$/ }, async ({ path }) => {
        const { outputFiles, metafile } = await build({
          ...options,
          entryPoints: [path],
          bundle: true,
          format: 'cjs',
          write: false,
          metafile: true,
        })
        built(metafile)
        return { contents: inFunction(outputFiles[0]?.text ?? '') }
      })
    },
  }
}

function inFunction(program: string): string {
  return `
let loaded
export function kysely() {
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
