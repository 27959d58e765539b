import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { oneCore } from '../../../scripts/build/one-core.ts'
import { smallShared } from '../../../scripts/build/small-shared.ts'

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

describe('a module that two parts share', () => {
  const parts = "export const one = () => import('./one.ts')\nexport const two = () => import('./two.ts')"

  test.for([
    ['with the index if it is small', 'export const shared = 1', true],
    ['apart if it is large', `export const shared = ${JSON.stringify('large'.repeat(1_000))}`, false],
    ['apart if it loads a package', "import 'pg'\nexport const shared = 1", false],
  ] as const)('is %s', async ([, program, withIndex]) => {
    await writeFile(join(folder, 'shared.ts'), program)
    await writeFile(join(folder, 'one.ts'), "import { shared } from './shared.ts'\nexport const one = shared")
    await writeFile(join(folder, 'two.ts'), "import { shared } from './shared.ts'\nexport const two = shared")
    const apart = await bundle(parts)
    const { metafile } = await bundle(parts, smallShared(apart.metafile, folder, 'index.ts'))
    const [core] = Object.values(metafile.outputs).filter(({ inputs }) => 'index.ts' in inputs)
    expect(Object.keys(core?.inputs ?? {}).includes('shared.ts')).toBe(withIndex)
  })
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

async function bundle(index: string, core: readonly string[] = []) {
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
    external: ['pg'],
    plugins: [oneCore(folder, ['index'], core)],
  })
}

function isLate(file: string): boolean {
  return file.endsWith('late.ts')
}
