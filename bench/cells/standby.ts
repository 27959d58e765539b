import type { Case, Cell, Goal } from '../cell.ts'
import { measureOnStandby } from '../measure/standby.ts'

const DISTANCES_MS = [2, 10]
const WRITERS = 16

/** With slots to spare, as its own commits wait for the standby as well. */
const KEEPS_UP = { workMs: 0, inFlight: 8, latency: true } as const

/** Some 150 transactions a second: at as many as the server can do, the wait for a turn would be most of the latency. */
const STEADY = { writers: 8, restMs: 40 } as const

const alone = (distanceMs: number): string => `${distanceMs} ms, no listener`
const beside = (distanceMs: number): string => `${distanceMs} ms, beside a consumer`
const steady = (distanceMs: number): string => `${distanceMs} ms, ${STEADY.writers} writers that rest`

export const standby: Cell = {
  name: 'standby',
  title: 'Enqueue where COMMIT waits for a synchronous standby',
  measures:
    `${WRITERS} writers that repeat BEGIN, one enqueue, COMMIT for 3 seconds, on a server of their own whose standby's ` +
    'answers come 2 or 10 ms late, alone or beside a consumer in another process with up to 8 batches in flight; and ' +
    `${STEADY.writers} writers that rest for ${STEADY.restMs} ms after each transaction, beside that consumer. p50 and p99: from ` +
    'sending COMMIT, so the wait for the standby is part of it, to the start of the handler, in milliseconds',
  metric: { name: 'perSecond', unit: 'transactions/s', better: 'more' },
  cases: DISTANCES_MS.flatMap((distanceMs): Case[] => [
    {
      name: alone(distanceMs),
      fill: () => ({ messages: 0 }),
      measure: (context) => measureOnStandby(context, distanceMs, { writers: WRITERS }),
    },
    {
      name: beside(distanceMs),
      fill: () => ({ messages: 0 }),
      measure: (context) => measureOnStandby(context, distanceMs, { ...KEEPS_UP, writers: WRITERS }),
    },
    {
      name: steady(distanceMs),
      fill: () => ({ messages: 0 }),
      measure: (context) => measureOnStandby(context, distanceMs, { ...KEEPS_UP, ...STEADY }),
    },
  ]),
  asks: ({ name }) => name === 'sluice',
  goals: DISTANCES_MS.flatMap((distanceMs): Goal[] => [
    {
      of: { contestant: 'sluice', case: beside(distanceMs) },
      over: { contestant: 'sluice', case: alone(distanceMs) },
      atLeast: 0.8,
    },
    { of: { contestant: 'sluice', case: steady(distanceMs), metric: 'p50' }, atMost: 2 * distanceMs },
  ]),
  mostRounds: 3,
}
