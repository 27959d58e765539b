import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')

interface Packed {
  readonly files: readonly { readonly path: string }[]
}

test('the package holds what its README links to, and no generated or private file', { timeout: 60_000 }, async () => {
  const files = await packedFiles()
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const links = [...readme.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, file = '']) => file)
  expect(links.length).toBeGreaterThan(10)
  expect(links.filter((link) => !files.includes(link))).toEqual([])
  const known = /^(dist|migrations|docs|examples|bench\/results)\/|^[\w-]+(\.md|\.json)?$/
  expect(files.filter((file) => !known.test(file))).toEqual([])
})

async function packedFiles(): Promise<readonly string[]> {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '--loglevel=error']
  const { stdout } = await promisify(execFile)('npm', args, { cwd: ROOT, maxBuffer: 16_777_216 })
  const [packed] = JSON.parse(stdout) as readonly [Packed]
  return packed.files.map(({ path }) => path)
}
