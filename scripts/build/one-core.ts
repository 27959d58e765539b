import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Plugin } from 'esbuild'

/**
 * Keeps together what `index.ts` needs. esbuild makes a chunk for each set of entries that share modules: 30 for the index
 * alone, each of which Node finds, reads and links apart. So every entry, and whatever an `import()` loads, is made to need
 * the index, which their users import anyway.
 *
 * @param source the folder of sources
 * @param entries below it, without an extension
 * @param core further files that the index is made to need
 */
export function oneCore(source: string, entries: readonly string[], core: readonly string[] = []): Plugin {
  const index = join(source, 'index.ts')
  const beside = new Set([...entries.map((entry) => join(source, `${entry}.ts`)), ...loadedLate(source)])
  beside.delete(index)
  return {
    name: 'one core',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^one core$/ }, () => ({ path: index }))
      onResolve({ filter: /^\./ }, ({ kind, path, resolveDir }) => {
        if (kind !== 'dynamic-import' || beside.has(join(resolveDir, path))) return
        return {
          errors: [{ text: `expected import('${path}') on one line, in single quotes: it is not seen otherwise` }],
        }
      })
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        if (path === index) return { contents: needing(core, readFileSync(path, 'utf8')), loader: 'ts' }
        if (!beside.has(path)) return
        const program = readFileSync(path, 'utf8')
        return { contents: program.replace(/^(#!.*\n)?/, "$1import 'one core';"), loader: 'ts' }
      })
    },
  }
}

function needing(files: readonly string[], program: string): string {
  return [...files.map((file) => `import ${JSON.stringify(file)}`), program].join('\n')
}

/** What an `import()` of a source loads. Found before the build, which loads some of it before it comes to the `import()`. */
function loadedLate(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => join(folder, file))
    .flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(/\bimport\('(\.[^']+)'\)/g)].map(([, path = '']) =>
        join(dirname(file), path),
      ),
    )
}
