import { describe, expect, test } from 'vitest'
import { check, type Model, STUCK } from './checker.ts'

interface Counters {
  total: number
  readonly read: (number | undefined)[]
  readonly written: boolean[]
}

/** Two processes that each add one to a number, by reading and writing it; atomically, or not. */
function counting(atomic: boolean): Model<Counters> {
  return {
    initial: { total: 0, read: [], written: [false, false] },
    moves: ({ read, written }) =>
      [0, 1]
        .filter((at) => !written[at])
        .map((at) => {
          const reads = {
            name: `${at} reads`,
            apply: (state: Counters) => {
              state.read[at] = state.total
            },
          }
          const writes = {
            name: `${at} writes`,
            apply: (state: Counters) => {
              state.total = (atomic ? state.total : state.read[at]!) + 1
              state.written[at] = true
            },
          }
          return atomic || typeof read[at] === 'number' ? writes : reads
        }),
    wrong: ({ total, written }) => (written.every(Boolean) && total !== 2 ? `counted ${total}` : undefined),
    done: ({ written }) => written.every(Boolean),
  }
}

/** Somebody sleeps until a signal that may be given before. */
const signalling: Model<{ asleep: boolean; signalled: boolean; woken: boolean }> = {
  initial: { asleep: false, signalled: false, woken: false },
  moves: ({ asleep, signalled, woken }) => [
    ...(asleep || woken
      ? []
      : [
          {
            name: 'sleeps',
            apply: (state: { asleep: boolean }) => {
              state.asleep = true
            },
          },
        ]),
    ...(signalled
      ? []
      : [
          {
            name: 'signals',
            apply: (state: { asleep: boolean; signalled: boolean; woken: boolean }) => {
              state.signalled = true
              if (state.asleep) Object.assign(state, { asleep: false, woken: true })
            },
          },
        ]),
  ],
  wrong: () => undefined,
  done: ({ woken }) => woken,
}

describe('the model checker', () => {
  test('goes through all interleavings, and finds nothing where nothing is', () => {
    expect(check(counting(true))).toEqual({ states: 4, moves: 4, counterexample: undefined })
  })

  test('finds the shortest way to what must not be', () => {
    const { counterexample } = check(counting(false))
    expect(counterexample).toEqual({ why: 'counted 1', trace: ['0 reads', '1 reads', '0 writes', '1 writes'] })
  })

  test('finds where nothing goes on', () => {
    expect(check(signalling).counterexample).toEqual({ why: STUCK, trace: ['signals', 'sleeps'] })
  })

  test('does not count on what nobody has to do', () => {
    const helped: typeof signalling = {
      ...signalling,
      moves: (state) => [
        ...signalling.moves(state),
        {
          name: 'dreams',
          apply: (dreaming) => {
            dreaming.woken = true
          },
          optional: true,
        },
      ],
    }
    expect(check(helped).counterexample?.why).toBe(STUCK)
  })
})
