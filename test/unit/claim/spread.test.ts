import { describe, expect, test } from 'vitest'
import { Spread } from '../../../src/claim/spread.ts'

/** Where claims begin, for draws from nearly zero to nearly one. */
function starts(concurrency: number, batchSize: number, workers: number): readonly number[] {
  const draws = Array.from({ length: 800 }, (_, at) => (at + 0.5) / 800)
  const spread = new Spread(concurrency, batchSize, () => draws.shift() ?? 0)
  spread.learn(workers)
  return Array.from({ length: 800 }, () => spread.next())
}

describe('the claims of many', () => {
  test('begin at the head once in eight times, and else anywhere in twice what all have in hand', () => {
    const found = starts(2, 100, 16)
    expect(found.filter((start) => start === 0).length).toBe(100)
    expect(Math.max(...found)).toBeLessThan(2 * 16 * 2 * 100)
    expect(Math.max(...found)).toBeGreaterThan(0.99 * 2 * 16 * 2 * 100)
    const firstHalf = found.filter((start) => start > 0 && start < 16 * 2 * 100)
    expect(Math.abs(firstHalf.length - 350)).toBeLessThan(5)
  })
})

describe('claims are spread', () => {
  test.for([
    [1, 1, false],
    [8, 1, false],
    [2, 4, false],
    [9, 1, true],
    [2, 5, true],
  ] as const)('with %i batches in flight in each of %i workers: %s', ([concurrency, workers, wide]) => {
    const spread = new Spread(concurrency, 10)
    expect(spread.wide).toBe(concurrency > 8)
    spread.learn(workers)
    expect(spread.wide).toBe(wide)
  })
})
