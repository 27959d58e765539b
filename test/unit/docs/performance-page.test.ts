import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { CELLS } from '../../../bench/cells/index.ts'
import { fillPage, placesOf, readResults } from '../../../bench/report/page.ts'
import type { CellResult, EntryResult } from '../../../bench/report/result.ts'
import { withoutRoot } from '../../../bench/run/without-root.ts'

const ROOT = join(import.meta.dirname, '../../..')
const PAGE = read('docs/internals/performance.md')

describe('docs/internals/performance.md', () => {
  test('says what the results say: npm run bench:page makes it so', () => {
    expect(PAGE).toBe(fillPage(PAGE, readResults(join(ROOT, 'bench/results'))))
  })

  test('has results without paths of the machine that measured', () => {
    const cause = `Error: Saturated\n    at measureLoad (${pathToFileURL(ROOT).href}/bench/measure/load.ts:52:3)`
    expect(withoutRoot(`${cause}, ${ROOT}/bench`)).toBe(
      'Error: Saturated\n    at measureLoad (bench/measure/load.ts:52:3), bench',
    )
    expect(JSON.stringify(readResults(join(ROOT, 'bench/results')))).not.toMatch(/file:\/\/\//)
  })

  test('has a place for each cell, in their order', () => {
    expect(placesOf(PAGE)).toEqual(CELLS.map(({ name }) => name))
  })

  test('has the bounds of the tests that gate buffers', () => {
    for (const [what, bound] of boundsOf('cost/buffers', /what: '([^']+)',\s+most: (\w+),/g)) {
      expect(gate(what).slice(1, 3), what).toEqual([bound, bound])
    }
  })

  test('has the bounds of the tests that gate what is written to the log', () => {
    const bounds = boundsOf('cost/wal', /what: '([^']+)',\s+messages: \w+,\s+records: (\w+),\s+bytesEach: (\w+),/g)
    for (const [what, records, bytes] of bounds) expect(gate(what).slice(3, 5), what).toEqual([records, bytes])
  })
})

describe('a page of results', () => {
  const empty =
    '<!-- bench:overview -->\n<!-- /bench:overview -->\nBetween.\n<!-- bench:drain -->\n<!-- /bench:drain -->\n'
  const page = fillPage(empty, [result()])

  test('has the numbers, the failures, and the goals, met or not', () => {
    expect(page).toContain('| **Sluice 0.1.0** | **2,000** | 1,000 – 3,000 |  | exactly once |')
    expect(page).toContain(
      '| pg-boss 12.0.0 | 500, failed 1×: a \\| b | 500 – 500 | 4.00 (2.00 – 6.00) | at least once |',
    )
    expect(page).toContain('- ✓ Goal met: two. Measured: 4.00 (2.00 – 6.00)\n')
    expect(page).toContain('- ? Goal: four. Not measured\n')
    expect(page).toContain('| [drain](#drain) | To drain | 2,000 messages/s | 1 of 5 | quick | 2 | abc |')
    expect(page).toContain('Sluice 0.1.0, pg-boss 12.0.0')
  })

  test('says of a goal over another queue that the loop by hand does not reach it either', () => {
    const note = 'Out of reach here: the fastest loop by hand has 8.00 (8.00 – 8.00) × pg-boss'
    expect(page).toContain(`- ✗ Goal missed: nine. Measured: 4.00 (2.00 – 6.00). ${note}\n`)
  })

  test('says of a goal for Sluice alone that the loop by hand misses it too', () => {
    expect(page).toContain('- ✗ Goal missed: low. Measured: 4.00 (2.00 – 6.00). The loop by hand misses it too: 3,500 ')
  })

  test('says of a goal whose contestant failed in every round that it is missed', () => {
    expect(page).toContain('- ✗ Goal missed: five. It failed: too slow\n')
  })

  test('changes nothing when it is made again, and keeps what is between', () => {
    expect(fillPage(page, [result()])).toBe(page)
    expect(page).toContain('\nBetween.\n')
    expect(fillPage(page, [])).toContain('No result yet: `npm run bench -- --only drain` makes it.')
  })

  test('is refused if it has no place for a cell', () => {
    expect(() => fillPage('', [result()])).toThrow('The page has no place for drain')
  })
})

function result(): CellResult {
  const fourfold = { median: 4, min: 2, max: 6 }
  const overPgBoss = { of: { contestant: 'sluice' }, over: { contestant: 'pg-boss' }, value: fourfold }
  return JSON.parse(
    JSON.stringify({
      name: 'drain',
      title: 'To drain',
      measures: 'All',
      metric: { name: 'perSecond', unit: 'messages/s', better: 'more' },
      environment: {
        ...{ date: '2026-01-02T03:04:05Z', commit: 'abc', scale: 'quick', cpu: '2 × CPU', memoryGiB: 4 },
        ...{ system: 'Linux 6', node: 'v24.0.0', server: 'PostgreSQL 18.1 on x (embedded)', settings: { fsync: 'on' } },
      },
      rounds: 2,
      entries: [
        entry('raw-loop', 'By hand', [3_500, 3_500]),
        { ...entry('pgbench', 'pgbench', ['too slow\nby far', 'too slow']), metrics: {} },
        entry('raw-loop-kept-plans', 'By hand, plans kept', [4_000, 4_000]),
        entry('sluice', 'Sluice 0.1.0', [1_000, 3_000]),
        { ...entry('pg-boss', 'pg-boss 12.0.0', [500, 'a | b\nc']), sluiceOver: fourfold },
      ],
      goals: [
        { ...overPgBoss, atLeast: 2, text: 'two', met: true },
        { ...overPgBoss, atLeast: 9, text: 'nine', met: false },
        { of: { contestant: 'sluice' }, value: fourfold, atMost: 2, text: 'low', met: false },
        { ...overPgBoss, atLeast: 4, text: 'four', value: undefined, met: undefined },
        { of: { contestant: 'pgbench' }, atLeast: 5, text: 'five', value: undefined, met: undefined },
      ],
    } satisfies CellResult),
  ) as CellResult
}

function entry(contestant: string, title: string, values: readonly (number | string)[]): EntryResult {
  const numbers = values.filter((value) => typeof value === 'number')
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)]
  return {
    ...{ contestant, title, guarantee: 'G', configuration: {}, case: '' },
    metrics: { perSecond: { median: (least + most) / 2, min: least, max: most } },
    samples: values.map((value) => (typeof value === 'number' ? { metrics: { perSecond: value } } : { failed: value })),
  }
}

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
