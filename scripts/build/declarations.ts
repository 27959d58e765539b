import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '../..')

/** The declarations that the entries reach. Those of inner modules, which no program can import, are not kept. */
export async function writeDeclarations(entries: readonly string[], folder: string): Promise<void> {
  const target = resolve(ROOT, folder)
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  await promisify(execFile)(tsc, ['-p', 'tsconfig.build.json', '--outDir', target], { cwd: ROOT })
  const reached = reachedFrom(entries.map((entry) => join(target, `${entry}.d.ts`)))
  for (const file of declarationsIn(target)) if (!reached.has(file)) rmSync(file)
  removeEmptyFolders(target)
}

function reachedFrom(files: readonly string[]): ReadonlySet<string> {
  const reached = new Set(files)
  // A set also goes through what is added to it on the way.
  for (const file of reached) {
    for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?['"](\.[^'"]+)['"]/g)) {
      reached.add(join(dirname(file), path.replace(/(?:\.d)?\.[jt]s$/, '.d.ts')))
    }
  }
  return reached
}

function declarationsIn(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.d.ts'))
    .map((file) => join(folder, file))
}

function removeEmptyFolders(folder: string): void {
  const inner = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  for (const { name } of inner) removeEmptyFolders(join(folder, name))
  if (readdirSync(folder).length === 0) rmdirSync(folder)
}
