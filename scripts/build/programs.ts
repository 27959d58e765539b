import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BuildOptions, build, type Metafile } from 'esbuild'
import { LATE_KYSELY, writeKysely } from './late-kysely.ts'
import { oneCore } from './one-core.ts'
import { PACKED_SQL } from './packed-sql.ts'
import { PG_LISTEN } from './pg-listen.ts'
import { smallShared } from './small-shared.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Node would load 600 files of these two before the first message. They are installed too, for their types. */
const EMBEDDED = ['kysely', 'rxjs']

/** The modules of RxJS, of which only what is used is kept. For Node the package names one file of all. */
const ALIAS = { rxjs: join(ROOT, 'node_modules/rxjs/dist/esm/index.js') }

/** Joins the modules of each entry. What several entries need, or an `import()` loads, is in a chunk. Returns from what. */
export async function joinPrograms(entries: readonly string[], folder: string): Promise<readonly Metafile[]> {
  const options: BuildOptions = { absWorkingDir: ROOT, platform: 'node', target: 'node22.12' }
  const joined = (core: readonly string[]): BuildOptions & { readonly metafile: true } => ({
    ...options,
    entryPoints: Object.fromEntries(entries.map((entry) => [entry, `src/${entry}.ts`])),
    outdir: folder,
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    external: [...packagesToFind()],
    alias: ALIAS,
    plugins: [PACKED_SQL, LATE_KYSELY, PG_LISTEN, oneCore(join(ROOT, 'src'), entries, core)],
    // The import that `oneCore` adds brings no code, and still keeps the chunks together.
    logOverride: { 'ignored-bare-import': 'silent' },
    metafile: true,
  })
  const apart = await build({ ...joined([]), write: false })
  const { metafile } = await build(joined(smallShared(apart.metafile, ROOT, 'src/index.ts')))
  return [metafile, await writeKysely(options, join(folder, 'chunks'))]
}

/** The packages that Node finds when the program runs. */
function packagesToFind(): readonly string[] {
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  return Object.keys({ ...dependencies, ...peerDependencies }).filter((name) => !EMBEDDED.includes(name))
}
