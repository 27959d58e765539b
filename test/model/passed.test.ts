import { describe, expect, test } from 'vitest'
import { check } from './checker.ts'
import { PASSED_TWINS, type PassedTwin, type PassedVariant, passedModel } from './passed-model.ts'

const LATE_COMMITS: PassedVariant = { there: ['a', 'a'], writers: ['b', 'a'], batches: [0] }
const TWO_KEYS: PassedVariant = { there: ['a', 'b', 'a', 'b'], writers: [], batches: [0], retries: 2 }

const REFUTED_BY: Record<PassedTwin, readonly [PassedVariant, string]> = {
  'which transactions ran': [LATE_COMMITS, '3 is passed over'],
  'when holds end': [TWO_KEYS, '4 is taken before 2'],
  'which keys it met': [TWO_KEYS, '4 is taken before 2'],
}

/** Two batches at a time are more states than can be walked in a minute; the property of passed rows has them. */
describe('no claim passes over a row that it could take, and the order of each key holds', () => {
  for (const [what, variant, least] of [
    ['with late commits', LATE_COMMITS, 40_000],
    ['with two keys that fail', TWO_KEYS, 1_000],
  ] as const) {
    test(what, () => {
      const { states, counterexample } = check(passedModel(variant))
      expect(counterexample).toBeUndefined()
      expect(states).toBeGreaterThan(least)
    })
  }
})

describe('a claim passes over a row that it could take if a process forgets', () => {
  for (const twin of PASSED_TWINS) {
    const [variant, why] = REFUTED_BY[twin]
    test(twin, () => {
      const { counterexample } = check(passedModel({ ...variant, twin }))
      expect(counterexample?.why).toBe(why)
      expect(counterexample?.trace.length).toBeGreaterThan(7)
    })
  }
})
