import { join } from 'node:path'
import { build, type Plugin } from 'esbuild'
import { MIGRATIONS, ROLES } from '../../src/migrate/sql-files.ts'

const ROOT = join(import.meta.dirname, '../..')

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
  await build({
    absWorkingDir: ROOT,
    entryPoints: Object.fromEntries(entries.map((entry) => [entry, `src/${entry}.ts`])),
    outdir: folder,
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22.12',
    packages: 'external',
    external: ['#pg-listen'],
    plugins: [EMBEDDED_SQL],
  })
}
