import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { CELLS } from '../../bench/cells/index.ts'
import { fillPage, placesOf, readResults } from '../../bench/report/page.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = read('docs/performance.md')

describe('docs/performance.md', () => {
  test('says what the results say: npm run bench:page makes it so', () => {
    expect(PAGE).toBe(fillPage(PAGE, readResults(join(ROOT, 'bench/results'))))
  })

  test('has a place for each cell, in their order', () => {
    expect(placesOf(PAGE)).toEqual(CELLS.map(({ name }) => name))
  })

  test('has the bounds of the tests that gate buffers', () => {
    for (const [what, bound] of boundsOf('cost-buffers', /what: '([^']+)',\s+most: (\w+),/g)) {
      expect(gate(what).slice(1, 3), what).toEqual([bound, bound])
    }
  })

  test('has the bounds of the tests that gate what is written to the log', () => {
    const bounds = boundsOf('cost-wal', /what: '([^']+)',\s+messages: \w+,\s+records: (\w+),\s+bytesEach: (\w+),/g)
    for (const [what, records, bytes] of bounds) expect(gate(what).slice(3, 5), what).toEqual([records, bytes])
  })
})

const GATES = /<!-- gates -->(.*)<!-- \/gates -->/s.exec(PAGE)?.[1] ?? ''

/** The cells of a gate's line. */
function gate(what = ''): readonly string[] {
  const [line = ''] = GATES.split('\n').filter((found) => found.startsWith(`| ${what} |`))
  return line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim())
}

/** What the pattern captures in a test, with numbers as the page has them. What begins at the bottom is apart. */
function boundsOf(name: string, pattern: RegExp): readonly (readonly string[])[] {
  const source = read(`test/integration/${name}.test.ts`)
  const found = [...source.matchAll(pattern)].filter(([, , bound]) => bound !== 'WALK')
  expect(found.length).toBeGreaterThan(10)
  return found.map(([, what = '', ...bounds]) => [what, ...bounds.map((bound) => numberIn(source, bound))])
}

/** A number as it is written, or the constant of that name. */
function numberIn(source: string, text: string): string {
  const digits = new RegExp(`const ${text} = (\\w+)`).exec(source)?.[1] ?? text
  return Number(digits.replaceAll('_', '')).toLocaleString('en')
}

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}
