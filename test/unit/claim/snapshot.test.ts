import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Floors } from '../../../src/claim/floors.ts'
import { toSnapshot } from '../../../src/table/claim/claim-snapshot.ts'

const rowOf = (xmax: bigint, running: readonly bigint[], xid: bigint) => ({
  xid: String(xid),
  xmin: String(running[0] ?? xmax),
  snapshot: `${running[0] ?? xmax}:${xmax}:${running.join()}`,
})

describe('the transactions that ran when a claim looked', () => {
  test('are those of its snapshot, and all from the last to end up to its own', () => {
    const { running, xmin, xid } = toSnapshot(rowOf(10n, [4n, 7n], 13n))
    expect({ running: [...running!], xmin, xid }).toEqual({ running: [4n, 7n, 10n, 11n, 12n], xmin: 4n, xid: 13n })
  })

  test('are all of them, or unknown, however many savepoints there are', () => {
    const ids = fc.uniqueArray(fc.bigInt(4n, 10_000n), { maxLength: 100 })
    const gap = fc.oneof(fc.bigInt(0n, 4_000n), fc.bigInt(0n, 2n ** 40n))
    fc.assert(
      fc.property(ids, gap, (some, above) => {
        const below = some.sort((a, b) => Number(a - b))
        const { running, xmin, xid } = toSnapshot(rowOf(10_001n, below, 10_001n + above))
        expect({ xmin, xid }).toEqual({ xmin: below[0] ?? 10_001n, xid: 10_001n + above })
        if (running === undefined) {
          expect(BigInt(below.length) + above).toBeGreaterThan(1_000n)
          return
        }
        expect(running.size).toBe(below.length + Number(above))
        expect(below.every((id) => running.has(id))).toBe(true)
      }),
    )
  })

  test('leave nothing to pass over while they are unknown, and the floors go on', () => {
    const floors = new Floors()
    floors.learn([], [3])
    const dueUs = Number.POSITIVE_INFINITY
    const walk = {
      slot: 3,
      firstLive: '7',
      start: '7',
      last: '9',
      partial: false,
      heldUntilUs: new Map([['a', 1]]),
      dueUs,
    }
    const look = (xmax: bigint, xid: bigint) =>
      floors.observed({
        firstLive: new Map([[3, '7']]),
        anyHeld: new Map([[3, true]]),
        walks: [walk],
        missed: [],
        snapshot: toSnapshot(rowOf(xmax, [], xid)),
      })
    look(100n, 100_000n)
    expect(floors.passed()).toEqual([])
    look(200_000n, 300_000n)
    expect(floors.slots(false)).toEqual([{ slot: 3, id: '7' }])
    expect(floors.passed()).toEqual([])
    look(300_001n, 300_002n)
    expect(floors.passed()).toMatchObject([{ slot: 3, lastId: '9', running: [300_001n] }])
  })
})
