import { describe, expect, test } from 'vitest'
import { Floors } from '../../../src/claim/floors.ts'
import type { ClaimedRow } from '../../../src/table/claim/claim.ts'
import { WHOLE_QUEUE_SLOT } from '../../../src/table/claim/claim-ordered.ts'
import { claimedRow, orderedClaim } from '../../support/rows/claimed-row.ts'

/** A time so late that no floor is held back. */
const LATE = Number.MAX_SAFE_INTEGER

/** The lowest that a row can be. */
const LOWEST = { id: '-9223372036854775808' }
const BOTTOM = { dueUs: -210_866_803_200_000_000, ...LOWEST }

/** A claim of which nothing came back meanwhile. */
function take(floors: Floors, rows: readonly ClaimedRow[], { bottom = false, full = false } = {}): void {
  floors.claimed(rows, { bottom, full, lowered: floors.lowered })
}

describe('floors of priorities', () => {
  test('begin at the bottom of the default priority', () => {
    expect(new Floors().priorities(LATE)).toEqual([{ priority: 5, ...BOTTOM }])
  })

  test('are asked for in the order of the priorities, whatever the order in which they were learned', () => {
    const floors = new Floors()
    floors.learn([9, 5, 0, 3], [])
    expect(floors.priorities(LATE).map(({ priority }) => priority)).toEqual([0, 3, 5, 9])
  })

  test('go up to the last row of each priority that a claim took', () => {
    const floors = new Floors()
    floors.learn([2, 5], [])
    take(floors, [
      claimedRow({ id: '7', priority: 2, dueUs: 10 }),
      claimedRow({ id: '8', priority: 2, dueUs: 20 }),
      claimedRow({ id: '3', dueUs: 5 }),
    ])
    expect(floors.priorities(LATE)).toEqual([
      { priority: 2, dueUs: 20, id: '8' },
      { priority: 5, dueUs: 5, id: '3' },
    ])
  })

  test('compare ids as numbers, beyond what a double holds', () => {
    const floors = new Floors()
    take(floors, [claimedRow({ id: '9007199254740993', dueUs: 5 })])
    take(floors, [claimedRow({ id: '10000000000000000', dueUs: 5 })])
    take(floors, [claimedRow({ id: '9007199254740992', dueUs: 5 })])
    expect(floors.priorities(LATE)).toEqual([{ priority: 5, dueUs: 5, id: '10000000000000000' }])
  })

  test('stay where they are when a claim from the bottom finds a few rows below', () => {
    const floors = new Floors()
    take(floors, [claimedRow({ id: '9', dueUs: 90 })])
    take(floors, [claimedRow({ id: '1', dueUs: 10 })], { bottom: true })
    expect(floors.priorities(LATE)).toEqual([{ priority: 5, dueUs: 90, id: '9' }])
  })

  test('go down when a claim from the bottom comes back full, because it has not looked further', () => {
    const floors = new Floors()
    floors.learn([1, 5], [])
    take(floors, [claimedRow({ id: '8', priority: 1, dueUs: 80 }), claimedRow({ id: '9', dueUs: 90 })])
    const late = [claimedRow({ id: '1', priority: 1, dueUs: 10 }), claimedRow({ id: '2', dueUs: 20 })]
    take(floors, late, { bottom: true, full: true })
    expect(floors.priorities(LATE)).toEqual([
      { priority: 1, dueUs: 80, id: '8' },
      { priority: 5, dueUs: 20, id: '2' },
    ])
  })

  test('go down to just below a row that is given back', () => {
    const floors = new Floors()
    const rows = [claimedRow({ id: '4', dueUs: 40 }), claimedRow({ id: '6', dueUs: 60 })]
    take(floors, rows)
    floors.lower(rows)
    expect(floors.priorities(LATE)).toEqual([{ priority: 5, dueUs: 40, id: '3' }])
  })

  test('are not raised by a claim that was sent before rows were given back', () => {
    const floors = new Floors()
    const { lowered } = floors
    floors.lower([claimedRow({ id: '4', dueUs: 40 })])
    floors.claimed([claimedRow({ id: '9', dueUs: 90 })], { bottom: false, full: false, lowered })
    expect(floors.priorities(LATE)).toEqual([{ priority: 5, ...BOTTOM }])
  })

  test('do not count in a sweep', () => {
    const floors = new Floors()
    take(floors, [claimedRow({ id: '9', dueUs: 90 })])
    expect(floors.priorities('bottom')).toEqual([{ priority: 5, ...BOTTOM }])
  })

  test('survive a look that finds their priority empty', () => {
    const floors = new Floors()
    take(floors, [claimedRow({ id: '9', dueUs: 90 })])
    floors.learn([], [])
    expect(floors.priorities(LATE)).toEqual([{ priority: 5, dueUs: 90, id: '9' }])
  })
})

describe('floors near the present', () => {
  test('start 100 ms back, where late commits may still appear', () => {
    const floors = new Floors()
    take(floors, [claimedRow({ id: '9', dueUs: 950_000 })])
    expect(floors.priorities(1_000_000)).toEqual([{ priority: 5, dueUs: 900_000, id: '0' }])
    expect(floors.priorities(1_049_999)).toEqual([{ priority: 5, dueUs: 949_999, id: '0' }])
    expect(floors.priorities(1_060_000)).toEqual([{ priority: 5, dueUs: 950_000, id: '9' }])
  })
})

describe('floors of slots', () => {
  const quiet = (xid: bigint) => ({ xmin: xid, xid })

  test('are those that the last look found, each first in turn', () => {
    const floors = new Floors()
    expect(floors.slotCount).toBe(0)
    floors.learn([], [3, 7, 9])
    expect(floors.slotCount).toBe(3)
    const firsts = Array.from({ length: 6 }, () => floors.slots(false)[0]?.slot)
    expect(firsts).toEqual([3, 7, 9, 3, 7, 9])
  })

  test('that a full claim takes from are behind the others at the next', () => {
    const floors = new Floors()
    floors.learn([], [1, 2, 3, 4, 5])
    const asked = (taken: number) => floors.slots(false, taken).map(({ slot }) => slot)
    expect(asked(2)).toEqual([1, 2, 3, 4, 5])
    expect(asked(4)).toEqual([3, 4, 5, 1, 2])
    expect(asked(1)).toEqual([2, 3, 4, 5, 1])
  })

  test('are remembered for a minute after their last message', () => {
    let now = 0
    const floors = new Floors(() => now)
    floors.learn([], [3, 7])
    now = 59_999
    floors.learn([], [7])
    expect(
      floors
        .slots(false)
        .map(({ slot }) => slot)
        .sort(),
    ).toEqual([3, 7])
    now = 60_000
    floors.learn([], [])
    expect(floors.slots(false)).toEqual([{ slot: 7, ...LOWEST }])
    now = 120_000
    floors.learn([], [])
    expect(floors.slotCount).toBe(0)
  })

  test('need two looks: the first live row, and that all who ran at that time have ended', () => {
    const floors = new Floors()
    floors.learn([], [3])
    floors.observed(orderedClaim({ 3: '40' }, quiet(10n)))
    expect(floors.slots(false)).toEqual([{ slot: 3, ...LOWEST }])
    floors.observed(orderedClaim({ 3: '50' }, quiet(12n)))
    expect(floors.slots(false)).toEqual([{ slot: 3, id: '40' }])
    expect(floors.slots(true)).toEqual([{ slot: 3, ...LOWEST }])
  })

  test('wait for a transaction that may have taken a lower id and not committed', () => {
    const floors = new Floors()
    floors.learn([], [3])
    floors.observed(orderedClaim({ 3: '40' }, { xmin: 8n, xid: 10n }))
    floors.observed(orderedClaim({ 3: '50' }, { xmin: 8n, xid: 12n }))
    expect(floors.slots(false)).toEqual([{ slot: 3, ...LOWEST }])
    floors.observed(orderedClaim({ 3: '50' }, { xmin: 11n, xid: 13n }))
    expect(floors.slots(false)).toEqual([{ slot: 3, id: '40' }])
  })

  test('take the late row that the second look sees', () => {
    const floors = new Floors()
    floors.learn([], [3])
    floors.observed(orderedClaim({ 3: '40' }, { xmin: 8n, xid: 10n }))
    floors.observed(orderedClaim({ 3: '35' }, quiet(11n)))
    expect(floors.slots(false)).toEqual([{ slot: 3, id: '35' }])
  })

  test('do not move when rows are given back, because they were never above a live row', () => {
    const floors = new Floors()
    floors.learn([], [3])
    floors.observed(orderedClaim({ 3: '40' }, quiet(10n)))
    floors.observed(orderedClaim({ 3: '40' }, quiet(11n)))
    floors.lower([claimedRow({ id: '40', slot: 3, orderingKey: 'a' })])
    expect(floors.slots(false)).toEqual([{ slot: 3, id: '40' }])
    expect(floors.priorities(LATE)).toEqual([{ priority: 5, ...BOTTOM }])
  })

  test('count as held behind a message that a session has locked, and not where one is gone or has been moved', () => {
    const floors = new Floors()
    floors.learn([], [3])
    const miss = (locked: boolean | null) =>
      floors.observed({
        ...orderedClaim({ 3: '7' }, { xmin: 1n, xid: 2n }),
        missed: [{ slot: 3, id: '7', key: 'a', locked }],
      })
    miss(null)
    miss(false)
    expect(floors.anyHeld).toBe(false)
    miss(true)
    expect(floors.anyHeld).toBe(true)
  })

  test('hold for the messages without a key when the whole queue is ordered', () => {
    const floors = new Floors()
    floors.observed(orderedClaim({ [WHOLE_QUEUE_SLOT]: '40' }, quiet(10n)))
    floors.observed(orderedClaim({ [WHOLE_QUEUE_SLOT]: '41' }, quiet(11n)))
    expect(floors.wholeQueue(false)).toEqual({ slot: WHOLE_QUEUE_SLOT, id: '40' })
    expect(floors.wholeQueue(true)).toEqual({ slot: WHOLE_QUEUE_SLOT, ...LOWEST })
    expect(floors.slotCount).toBe(0)
  })
})
