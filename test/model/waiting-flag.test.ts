import { describe, expect, test } from 'vitest'
import { check, STUCK } from './checker.ts'
import { flagModel } from './waiting-flag-model.ts'
import { FLAG_TWINS, type FlagTwin, type FlagVariant } from './waiting-flag-state.ts'

const STEPS_OF_ONE: FlagVariant = { watchers: 1, enqueuers: 2 }
const STEPS_OF_TWO: FlagVariant = { watchers: 2, enqueuers: 2 }
const ONE_STOPS: FlagVariant = { watchers: 2, enqueuers: 1, stops: 1 }
const ONE_LINGERS: FlagVariant = { watchers: 1, enqueuers: 2, lingers: true }
const TWO_LINGER: FlagVariant = { watchers: 2, enqueuers: 1, lingers: true }

/** The least in which each shows. */
const REFUTED_BY: Record<FlagTwin, FlagVariant> = {
  'does not look again under its flag': STEPS_OF_ONE,
  'sleeps when enqueues are in flight': STEPS_OF_ONE,
  'lowers without telling': ONE_STOPS,
  'does not tell when it was notified': STEPS_OF_TWO,
  'forgets that others moved while it tried': ONE_STOPS,
  'overhears a notification while it looks': STEPS_OF_ONE,
  'lingers without looking again': ONE_LINGERS,
  'checks the flag without locking': STEPS_OF_ONE,
  'frees the flag before its message is visible': STEPS_OF_ONE,
}

describe('without the poll, the waiting flag loses no wake-up', () => {
  test('between a process and enqueues', () => {
    const { states, counterexample } = check(flagModel({ watchers: 1, enqueuers: 3 }))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(3_000)
  })

  test('between two processes and enqueues', () => {
    const { states, counterexample } = check(flagModel(STEPS_OF_TWO))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(200_000)
  })

  test('when a process that was notified lingers', () => {
    const { states, counterexample } = check(flagModel(ONE_LINGERS))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(1_000)
  })

  test('when a process lingers on whose flag another relies', () => {
    const { states, counterexample } = check(flagModel(TWO_LINGER))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(10_000)
  })

  test('when a process stops in order', () => {
    const { states, counterexample } = check(flagModel(ONE_STOPS))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(15_000)
  })

  test('when a process vanishes that has neither the flag nor a message', () => {
    const vanishes = { count: 1, which: 'bystanders' } as const
    const { states, counterexample } = check(flagModel({ watchers: 2, enqueuers: 1, vanishes }))
    expect(counterexample).toBeUndefined()
    expect(states).toBeGreaterThan(10_000)
  })
})

describe('a process that vanishes', () => {
  for (const which of ['flag holders', 'any'] as const) {
    const vanishes = { count: 1, which }

    test(`with ${which === 'any' ? 'a message' : 'the flag'} leaves others asleep, until they poll`, () => {
      const { counterexample } = check(flagModel({ watchers: 2, enqueuers: 1, vanishes }))
      expect(counterexample).toMatchObject({ why: STUCK, trace: expect.arrayContaining(['watcher 0 vanishes']) })
      const polled = check(flagModel({ watchers: 2, enqueuers: 1, vanishes, poll: true }))
      expect(polled.counterexample).toBeUndefined()
      expect(polled.states).toBeGreaterThan(15_000)
    })
  }
})

describe('a wake-up is lost if', () => {
  for (const twin of FLAG_TWINS) {
    test(`a process or an enqueue ${twin}`, () => {
      const { counterexample } = check(flagModel({ ...REFUTED_BY[twin], twin }))
      expect(counterexample?.why).toBe(STUCK)
      expect(counterexample?.trace.length).toBeGreaterThan(6)
    })
  }
})
