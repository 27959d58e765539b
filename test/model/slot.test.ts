import { describe, expect, test } from 'vitest'
import { check } from './checker.ts'
import { SLOT_TWINS, type SlotTwin, type SlotVariant, slotModel } from './slot-model.ts'

const ONE_BATCH: SlotVariant = { writers: 3, batches: [0] }
const TWO_PROCESSES: SlotVariant = { writers: 2, batches: [0, 1], retries: 1 }
const LEASES: SlotVariant = { writers: 3, batches: [0, 1], leased: [0] }

/** The variant in which each shows, and how. */
const REFUTED_BY: Record<SlotTwin, readonly [SlotVariant, string]> = {
  'the floor goes up at the first look': [ONE_BATCH, 'a floor hides 1'],
  'the floor does not wait for older transactions': [ONE_BATCH, 'a floor hides 1'],
  'the floor waits for those below the last that ended': [ONE_BATCH, 'a floor hides 1'],
  'an id is drawn before the transaction has its number': [ONE_BATCH, 'a floor hides 1'],
  'the slot is not locked': [TWO_PROCESSES, '2 is taken before 1'],
  'holds are read by the snapshot': [TWO_PROCESSES, '2 is taken before 1'],
  'a lease closes the key for later messages alone': [LEASES, '1 is taken beside 2'],
}

/** Order is by id, among what had been committed when a claim looked. No sweep is needed for it. */
describe('the order of a key holds, and its floor hides nothing, without a sweep', () => {
  for (const [what, variant, least] of [
    ['with one batch', { ...ONE_BATCH, retries: 1, rollbacks: 1 }, 30_000],
    ['with two batches that share a floor', { writers: 3, batches: [0, 0], retries: 1 }, 80_000],
    ['with two processes', { ...TWO_PROCESSES, rollbacks: 1 }, 25_000],
    ['with leases that end or are given back, beside a transactional batch', { ...LEASES, rollbacks: 1 }, 25_000],
  ] as const) {
    test(`${what}, late commits and retries`, () => {
      const { states, counterexample } = check(slotModel(variant))
      expect(counterexample).toBeUndefined()
      expect(states).toBeGreaterThan(least)
    })
  }
})

describe('the order of a key breaks, or its floor hides a message, if', () => {
  for (const twin of SLOT_TWINS) {
    const [variant, why] = REFUTED_BY[twin]
    test(twin, () => {
      const { counterexample } = check(slotModel({ ...variant, twin }))
      expect(counterexample?.why).toBe(why)
      expect(counterexample?.trace.length).toBeGreaterThan(7)
    })
  }
})
