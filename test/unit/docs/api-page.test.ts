import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { apiPages } from '../../../scripts/api/page.ts'
import { ERROR_CODES } from '../../../src/errors.ts'

const FOLDER = new URL('../../../docs/reference/api/', import.meta.url)
const FILES = readdirSync(FOLDER)
const read = (file: string) => readFileSync(new URL(file, FOLDER), 'utf8')

test('docs/reference/api says what the doc comments say: npm run docs:api writes it', () => {
  const pages = apiPages()
  expect(FILES.sort()).toEqual([...pages.keys()].sort())
  for (const file of FILES) expect(read(file), file).toBe(pages.get(file))
})

test('docs/reference/api has every error code', () => {
  const rows = [...read('errors.md').matchAll(/^\| \[`(\w+)`\]/gm)].map(([, code]) => code)
  expect(rows.sort()).toEqual([...ERROR_CODES].sort())
})

test('no two headings of a page of docs/reference/api have one anchor', () => {
  for (const file of FILES) {
    const headings = [...read(file).matchAll(/^#+ (.*)$/gm)].map(([, text = '']) => text.toLowerCase())
    expect(
      headings.filter((heading, at) => headings.indexOf(heading) !== at),
      file,
    ).toEqual([])
  }
})
