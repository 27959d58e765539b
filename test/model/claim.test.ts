import { describe, expect, test } from 'vitest'
import { check, STUCK } from './checker.ts'
import { claimModel } from './claim-model.ts'
import { CLAIM_TWINS, type ClaimVariant, type MECHANISMS } from './claim-state.ts'

const OWN_ROLLBACK: ClaimVariant = { messages: 3, processes: 1, slots: 2, commits: 'at once', rollbacks: 1 }
const LATE: ClaimVariant = { messages: 3, processes: 1, slots: 1, commits: 'whenever' }
const A_LITTLE_LATE: ClaimVariant = { ...LATE, commits: 'within the look-back' }
const APART: ClaimVariant = { messages: 3, processes: 1, slots: 2, commits: 'at once', apart: 1 }
const ANOTHERS_DEATH: ClaimVariant = {
  messages: 3,
  processes: 2,
  slots: 1,
  commits: 'at once',
  crashes: 1,
  staysDead: true,
}

type Mechanism = (typeof MECHANISMS)[number]

const ALL_BUT_THE_SWEEP: readonly Mechanism[] = ['lowering floors', 'the count of lowerings', 'the look-back']

/** Whether each message is handled in the end if only these bring rows below a floor back into sight. */
const COVERS: readonly (readonly [string, ClaimVariant, readonly Mechanism[], boolean])[] = [
  ['a rollback of its own', OWN_ROLLBACK, [], false],
  ['a rollback of its own', OWN_ROLLBACK, ['lowering floors'], false],
  ['a rollback of its own', OWN_ROLLBACK, ['lowering floors', 'the count of lowerings'], true],
  ['a rollback of its own', OWN_ROLLBACK, ['the sweep'], true],
  ['a late commit', LATE, ALL_BUT_THE_SWEEP, false],
  ['a late commit', LATE, ['the sweep'], true],
  ['a commit within the look-back', A_LITTLE_LATE, ALL_BUT_THE_SWEEP, false],
  ['a commit within the look-back', A_LITTLE_LATE, ['the sweep'], true],
  ["another process's death", ANOTHERS_DEATH, ALL_BUT_THE_SWEEP, false],
  ["another process's death", ANOTHERS_DEATH, ['the sweep'], true],
]

describe('every committed message takes effect once', () => {
  test('with two processes, late commits, a rollback and a crash', () => {
    const everything = { messages: 2, processes: 2, slots: 1, commits: 'whenever', rollbacks: 1, crashes: 1 } as const
    const { states, counterexample } = check(claimModel(everything))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(10_000)
  })

  test('with two batches in flight, late commits, a rollback and a crash', () => {
    const everything = { messages: 2, processes: 1, slots: 2, commits: 'whenever', rollbacks: 1, crashes: 1 } as const
    const { states, counterexample } = check(claimModel(everything))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(10_000)
  })
})

describe('a floor', () => {
  for (const [what, variant, mechanisms, covered] of COVERS) {
    const by = mechanisms.join(' and ') || 'nothing'
    test(`${covered ? 'hides nothing' : 'hides a message for ever'} after ${what}, covered by ${by}`, () => {
      const without = [...ALL_BUT_THE_SWEEP, 'the sweep' as const].filter((one) => !mechanisms.includes(one))
      const { states, counterexample } = check(claimModel({ ...variant, without }))
      expect(counterexample?.why).toBe(covered ? undefined : STUCK)
      expect(states).toBeGreaterThan(2_000)
    })
  }

  test('hides nothing that a claim left before it, even without a sweep', () => {
    const { states, counterexample } = check(claimModel({ ...APART, without: ['the sweep'] }))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(500)
  })

  test('hides a message for ever if it goes up past what a claim left before it', () => {
    const twin = 'floor goes up past what a claim left before it'
    const { counterexample } = check(claimModel({ ...APART, without: ['the sweep'], twin }))
    expect(counterexample?.why).toBe(STUCK)
  })

  test('costs a sweep and no message where claims apart meet late commits, a rollback and a crash', () => {
    const everything = { messages: 2, processes: 2, slots: 1, commits: 'whenever', rollbacks: 1, crashes: 1 } as const
    expect(check(claimModel({ ...everything, apart: 1 })).counterexample).toBeUndefined()
  })

  test('hides nothing that commits within the look-back of its insert, if it keeps the look-back when it goes up', () => {
    const twin = 'look-back when a floor goes up'
    const { counterexample } = check(claimModel({ ...A_LITTLE_LATE, without: ['the sweep'], twin }))
    expect(counterexample).toBeUndefined()
  })
})

describe('a message', () => {
  const variant: ClaimVariant = { messages: 1, processes: 2, slots: 1, commits: 'at once', crashes: 1 }

  test(`is lost if a batch ${CLAIM_TWINS[0]}`, () => {
    const { counterexample } = check(claimModel({ ...variant, twin: CLAIM_TWINS[0] }))
    expect(counterexample?.why).toBe(STUCK)
  })

  test(`takes effect twice if a batch has its ${CLAIM_TWINS[1]}`, () => {
    const { counterexample } = check(claimModel({ ...variant, twin: CLAIM_TWINS[1] }))
    expect(counterexample?.why).toBe('message 0 took effect twice')
  })
})
