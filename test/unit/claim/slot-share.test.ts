import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { SlotShare } from '../../../src/claim/slot-share.ts'

/** The rows of a claim: so many of each slot. */
const rowsOf = (...counts: readonly number[]) =>
  counts.flatMap((count, slot) => Array.from({ length: count }, () => ({ slot })))

describe('a claim of a relay takes', () => {
  test.for([
    [100, 256, 2, 4],
    [100, 45, 2, 5],
    [100, 10, 2, 20],
    [100, 10, 20, 100],
    [100, 1, 2, 100],
    [100, 0, 2, 100],
    [10, 256, 2, 1],
    [1, 256, 2, 1],
    [1_000, 256, 2, 40],
  ] as const)(
    'of %i messages, with %i slots and %i batches in flight, %i of a slot',
    ([limit, slots, inFlight, share]) => {
      expect(new SlotShare(25).of(limit, slots, inFlight)).toBe(share)
    },
  )

  test('twice as many of a slot while a slot has more and batches are not full, until one fills a batch', () => {
    const share = new SlotShare(25)
    const shares: number[] = []
    for (let claim = 0; claim < 7; claim++) {
      const one = share.of(100, 256, 2)
      shares.push(one)
      share.took(rowsOf(one), 100, one)
    }
    expect(shares).toEqual([4, 8, 16, 32, 64, 100, 64])
  })

  test('no more of a slot when others have no more, as when a queue is nearly empty', () => {
    const share = new SlotShare(25)
    expect(share.took(rowsOf(3, 2, 1), 100, 4)).toBe(false)
    expect(share.took([], 100, 4)).toBe(false)
    expect(share.of(100, 256, 2)).toBe(4)
  })

  test('fewer of a slot again when batches are full', () => {
    const share = new SlotShare(25)
    for (let claim = 0; claim < 3; claim++) expect(share.took(rowsOf(32), 100, 32)).toBe(true)
    const full = rowsOf(...Array.from({ length: 25 }, () => 4))
    const shares = Array.from({ length: 4 }, () => {
      share.took(full, 100, share.of(100, 256, 2))
      return share.of(100, 256, 2)
    })
    expect(shares).toEqual([16, 8, 4, 4])
  })
})

test('a claim of any other pipeline takes all of a slot that it may', () => {
  fc.assert(
    fc.property(fc.nat(1_000), fc.nat(256), fc.integer({ min: 1, max: 100 }), (rest, slots, inFlight) => {
      const share = new SlotShare(1)
      const limit = rest + 1
      expect(share.of(limit, slots, inFlight)).toBe(limit)
      expect(share.took(rowsOf(rest), limit, limit)).toBe(false)
      expect(share.of(limit, slots, inFlight)).toBe(limit)
    }),
  )
})

test('whatever claims find, a share is at least one message, and at most a batch', () => {
  const claim = fc.record({
    limit: fc.integer({ min: 1, max: 1_000 }),
    slots: fc.nat(256),
    inFlight: fc.integer({ min: 1, max: 50 }),
    found: fc.array(fc.nat(300), { maxLength: 10 }),
  })
  fc.assert(
    fc.property(fc.array(claim, { maxLength: 60 }), (claims) => {
      const share = new SlotShare(25)
      for (const { limit, slots, inFlight, found } of claims) {
        const one = share.of(limit, slots, inFlight)
        expect(one).toBeGreaterThanOrEqual(1)
        expect(one).toBeLessThanOrEqual(limit)
        share.took(rowsOf(...found.map((count) => Math.min(count, one))).slice(0, limit), limit, one)
      }
    }),
  )
})
