import { describe, expect, test } from 'vitest'
import { shareConnections, type Wanted } from '../../../src/plan/share-connections.ts'

const transactional = (concurrency: number, queue = 'emails'): Wanted => ({ queue, mode: 'transactional', concurrency })
const leased = (concurrency: number): Wanted => ({ queue: 'reports', mode: 'leased', concurrency })

describe('connections', () => {
  test('are all for calls while there is no pipeline', () => {
    expect(shareConnections(5, 0, []).shares).toMatchObject({ calls: 5, batches: 0, transactions: 0 })
  })

  test('are those that pipelines want, and what is left over is for calls', () => {
    const { shares, batches } = shareConnections(20, 2, [transactional(4), transactional(2)])
    expect(batches).toEqual([4, 2])
    expect(shares).toMatchObject({ batches: 6, calls: 12 })
  })

  test('are shared in turn where there are too few, so that no pipeline has more than another that wants more', () => {
    const { shares, batches } = shareConnections(12, 2, [transactional(100), transactional(2), transactional(100)])
    expect(batches).toEqual([3, 2, 3])
    expect(shares.calls).toBe(2)
  })

  test('never sum up to more, and leave nothing over', () => {
    for (let max = 9; max < 60; max++) {
      const pipelines = [transactional(7), leased(30), transactional(1), leased(2)]
      const { shares } = shareConnections(max, 2, pipelines)
      expect(Object.values(shares).reduce((sum, share) => sum + share)).toBe(max - 2)
      expect(Math.min(...Object.values(shares))).toBeGreaterThan(0)
    }
  })

  test('of leased mode are for claims, settlements and transactions, whatever the concurrency is', () => {
    const { shares, batches } = shareConnections(40, 2, [leased(1_000)])
    expect(shares).toEqual({ batches: 0, claims: 1, settlements: 1, transactions: 10, calls: 26 })
    expect(batches).toEqual([0])
  })

  test.each([
    { max: 3, pipelines: [transactional(8)], least: 4 },
    { max: 5, pipelines: [transactional(1), transactional(1), transactional(1)], least: 6 },
    { max: 5, pipelines: [leased(1), leased(1)], least: 6 },
    { max: 6, pipelines: [leased(1), transactional(1)], least: 7 },
  ])('of which $max are too few are refused with the least that works, $least', ({ max, pipelines, least }) => {
    const refused = { code: 'OPTION_INVALID', message: expect.stringContaining(`at least ${least} (`) }
    expect(() => shareConnections(max, 2, pipelines)).toThrow(expect.objectContaining(refused))
    expect(shareConnections(least, 2, pipelines).shares.calls).toBe(1)
  })

  test('that are too few are refused with what each is for', () => {
    expect(() => shareConnections(5, 4, [transactional(1), leased(1), leased(2)])).toThrow(
      'maxConnections: expected at least 9 (1 for 1 pipeline in transactional mode, 3 for 2 pipelines in leased mode, ' +
        '1 for calls, 4 for control and listening), received 5. Raise it',
    )
  })
})
