import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Metafile, type Plugin } from 'esbuild'
import { licencesOf } from './licences.ts'

/** `require(__dirname + …)` cannot be followed by a bundler, and this one is at the top of a module. */
const STATIC_REQUIRE: Plugin = {
  name: 'static require',
  setup({ onLoad }) {
    onLoad({ filter: /pg-format[\\/]lib[\\/]index\.js$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8')
      const contents = text.replace("require(__dirname + '/reserved.js')", "require('./reserved.js')")
      if (contents === text) throw new Error(`${path}: expected a require of reserved.js`)
      return { contents, loader: 'js' }
    })
  },
}

/** The chunks import {@link copyPgListen | the copy}. */
export const PG_LISTEN: Plugin = {
  name: 'copy of pg-listen',
  setup({ onResolve }) {
    onResolve({ filter: /^pg-listen$/ }, ({ kind }) =>
      kind === 'entry-point' ? undefined : { path: './pg-listen.cjs', external: true },
    )
  },
}

/**
 * A copy of pg-listen that bundlers can follow, with all that it needs but `pg`: it does not depend on how a package manager
 * lays out its dependencies. Node takes 5 ms less for it than for the nine files of four packages.
 */
export async function copyPgListen(folder: string): Promise<Metafile> {
  const outfile = join(folder, 'pg-listen.cjs')
  const { metafile } = await build({
    entryPoints: [fileURLToPath(import.meta.resolve('pg-listen'))],
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node22',
    external: ['pg', 'supports-color'],
    plugins: [STATIC_REQUIRE],
    metafile: true,
    outfile,
  })
  writeFileSync(outfile, `/*\n${licencesOf([metafile])}\n*/\n${readFileSync(outfile, 'utf8')}`)
  return metafile
}
