import { describe, expect, test } from 'vitest'
import { check } from './checker.ts'
import { STABLE_TWINS, type StableTwin, type StableVariant, stableModel } from './stable-model.ts'

const TWO_APPEND: StableVariant = { appends: 2, looks: 2 }
const WITH_SAVEPOINTS: StableVariant = { appends: 2, looks: 2, savepoints: true }

/** The least in which each shows. */
const REFUTED_BY: Record<StableTwin, StableVariant> = {
  'reads the head after the locks': { appends: 1, looks: 1 },
  'locks after it has drawn': { appends: 1, looks: 1 },
  'reads the events with the snapshot of the look': { appends: 1, looks: 1 },
  'unlocks before its commit is visible': { appends: 1, looks: 1 },
  'keeps what a rolled back savepoint had locked': { appends: 1, looks: 1, savepoints: true },
}

describe('a reader that never looks back passes no event', () => {
  test.for([
    ['of two appends, in two looks', TWO_APPEND, 2_000],
    ['of three appends, in one look', { appends: 3, looks: 1 }, 5_000],
    ['of appends that are undone to a savepoint and made again', WITH_SAVEPOINTS, 5_000],
  ] as const)('%s', ([, variant, least]) => {
    const { states, counterexample } = check(stableModel(variant))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(least)
  })

  test.for(STABLE_TWINS)('unless somebody %s', (twin) => {
    expect(check(stableModel(REFUTED_BY[twin], twin)).counterexample?.why).toMatch(/has been passed$/)
  })
})
