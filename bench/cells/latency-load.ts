import type { Case, Cell } from '../cell.ts'
import { measureLoad } from '../measure/load.ts'
import { latency } from './latency.ts'

/** Messages a second, and the p99 in milliseconds that Sluice is to keep. */
const RATES = [
  { perSecond: 100, atMost: 10 },
  { perSecond: 1_000, atMost: 20 },
  { perSecond: 2_000, atMost: 50 },
]

const NOTHING = { does: 'handlers do nothing', workMs: 0 }
/** At 2,000 a second 40 handlers are asleep at any moment. */
const WAITING = { does: 'handlers of 20 ms', workMs: 20, atOnce: 100 }

const CASES = [NOTHING, WAITING].flatMap((handlers) => RATES.map((rate) => ({ ...handlers, ...rate })))

const nameOf = ({ perSecond, does }: (typeof CASES)[number]): string => `${perSecond.toLocaleString('en')}/s, ${does}`

export const latencyLoad: Cell = {
  name: 'latency-load',
  title: 'From when a message is due to be sent to its handler, under load',
  measures:
    'Messages fall due by a fixed schedule for 20 seconds, whatever becomes of those before them, and are sent by the first ' +
    'of 32 connections that is free, each in a transaction of its own, to a consumer in another process: from when a message ' +
    'was due to the start of its handler, so waiting for a connection and the COMMIT are part of it. Handlers that do nothing ' +
    'come in batches of up to 100, 4 in flight; handlers that sleep 20 ms run up to 100 at a time. The first 5 seconds, after ' +
    'both processes have started, are apart. A contestant that is more than a second behind at the end is saturated',
  metric: { name: 'p99', unit: 'ms, p99', better: 'less' },
  series: { x: 'seconds since the start', y: 'p99 of each second, ms', scale: 'log' },
  cases: CASES.map(
    (spec): Case => ({
      name: nameOf(spec),
      ...(spec.perSecond === 1_000 ? {} : { slow: true }),
      fill: () => ({ messages: 0 }),
      measure: (context) => measureLoad(context, spec),
    }),
  ),
  asks: latency.asks,
  without: latency.without ?? {},
  goals: CASES.map((spec) => ({ of: { contestant: 'sluice', case: nameOf(spec) }, atMost: spec.atMost })),
  mostRounds: 3,
}
