import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { oneCore } from '../../scripts/build/one-core.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-one-core-'))
  await writeFile(join(folder, 'late.ts'), 'export const late = 1')
})

afterEach(() => rm(folder, { recursive: true }))

test('what an import() loads needs the index', async () => {
  const { metafile } = await bundle("export const load = () => import('./late.ts')")
  const [late] = Object.values(metafile.outputs).filter(({ inputs }) => Object.keys(inputs).some(isLate))
  expect(late?.imports).toHaveLength(1)
})

test.for([
  ['double quotes', 'import("./late.ts")'],
  ['backquotes', 'import(`./late.ts`)'],
  ['a line of its own', "import(\n  './late.ts'\n)"],
])('a build with the path of an import() in %s fails', async ([, program]) => {
  await expect(bundle(`export const load = () => ${program}`)).rejects.toThrow(
    "expected import('./late.ts') on one line, in single quotes",
  )
})

async function bundle(index: string) {
  await writeFile(join(folder, 'index.ts'), `export const core = 1\n${index}`)
  return build({
    absWorkingDir: folder,
    entryPoints: ['index.ts'],
    bundle: true,
    splitting: true,
    format: 'esm',
    outdir: 'out',
    write: false,
    metafile: true,
    logLevel: 'silent',
    plugins: [oneCore(folder, ['index'])],
  })
}

function isLate(file: string): boolean {
  return file.endsWith('late.ts')
}
