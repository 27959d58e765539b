import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { apiPage } from '../../scripts/api/page.ts'
import { ERROR_CODES } from '../../src/errors.ts'

const PAGE = readFileSync(new URL('../../docs/reference/api.md', import.meta.url), 'utf8')

test('docs/reference/api.md says what the doc comments say: npm run docs:api writes it', () => {
  expect(PAGE).toBe(apiPage())
})

test('docs/reference/api.md has every error code', () => {
  const rows = [...PAGE.matchAll(/^\| \[`(\w+)`\]/gm)].map(([, code]) => code)
  expect(rows.sort()).toEqual([...ERROR_CODES].sort())
})
