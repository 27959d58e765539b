import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../../..')

interface Packed {
  readonly files: readonly { readonly path: string }[]
}

test('the pages of the package link to files of the package, and it holds no generated or private file', {
  timeout: 60_000,
}, async () => {
  const files = await packedFiles()
  const pages = files.filter((file) => file.endsWith('.md'))
  expect(pages.length).toBeGreaterThan(40)
  const links = pages.flatMap((page) => linksOf(page).map((target) => ({ page, target })))
  expect(links.length).toBeGreaterThan(200)
  expect(links.filter(({ target }) => !files.includes(target))).toEqual([])
  const known = /^(dist|migrations|docs|examples|bench\/results)\/|^[\w-]+(\.md|\.json)?$/
  expect(files.filter((file) => !known.test(file))).toEqual([])
})

/** What a page links to, other than places on the web and in itself, from the root of the package. */
function linksOf(page: string): readonly string[] {
  const text = readFileSync(join(ROOT, page), 'utf8')
  return [...text.matchAll(/(?:\]\(|\bsrc="|\bsrcset=")(?!https?:)([^)#"]+)/g)].map(([, file = '']) =>
    join(dirname(page), file),
  )
}

async function packedFiles(): Promise<readonly string[]> {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '--loglevel=error']
  const { stdout } = await promisify(execFile)('npm', args, { cwd: ROOT, maxBuffer: 16_777_216 })
  const [packed] = JSON.parse(stdout) as readonly [Packed]
  return packed.files.map(({ path }) => path)
}
