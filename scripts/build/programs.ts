import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type Plugin } from 'esbuild'
import { MIGRATIONS, ROLES } from '../../src/migrate/sql-files.ts'
import { licencesOf } from './licences.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Node would load 600 files of these two before the first message. Their types are still those of the installed packages. */
const EMBEDDED = ['kysely', 'rxjs']

/** The modules of RxJS, of which only what is used is kept. For Node the package names one file of all. */
const ALIAS = { rxjs: join(ROOT, 'node_modules/rxjs/dist/esm/index.js') }

/** A bundled application has no `migrations/` beside it, so their text is in the program. */
const EMBEDDED_SQL: Plugin = {
  name: 'embedded SQL',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]migrate[\\/]sql-files\.ts$/ }, () => ({
      contents: `export const MIGRATIONS = ${JSON.stringify(MIGRATIONS)}\nexport const ROLES = ${JSON.stringify(ROLES)}\n`,
    }))
  },
}

/** Joins the modules of each entry. What several entries need, or an `import()` loads, is in a chunk. */
export async function joinPrograms(entries: readonly string[], folder: string): Promise<void> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: Object.fromEntries(entries.map((entry) => [entry, `src/${entry}.ts`])),
    outdir: folder,
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22.12',
    external: ['#pg-listen', ...packagesToFind()],
    alias: ALIAS,
    plugins: [EMBEDDED_SQL],
    metafile: true,
  })
  writeFileSync(join(folder, 'licences.txt'), `${licencesOf(metafile)}\n`)
}

/** The packages that Node finds when the program runs. */
function packagesToFind(): readonly string[] {
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  return Object.keys({ ...dependencies, ...peerDependencies }).filter((name) => !EMBEDDED.includes(name))
}
