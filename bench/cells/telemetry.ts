import type { Cell } from '../cell.ts'
import { drainCase, PER_SECOND } from './drain.ts'

const BATCHES = 'batches of 100'
const SINGLES = 'one by one'

export const telemetry: Cell = {
  name: 'telemetry',
  title: 'Metrics and traces of handlers that do nothing',
  measures:
    'As drain-batches and drain-singles, without telemetry and with that of OpenTelemetry, whose SDK runs in the process and drops ' +
    'what it collects',
  metric: PER_SECOND,
  cases: [
    { ...drainCase({ full: 300_000, quick: 30_000 }, { batchSize: 100, inFlight: 4, work: 'nothing' }), name: BATCHES },
    { ...drainCase({ full: 30_000, quick: 6_000 }, { batchSize: 1, inFlight: 8, work: 'nothing' }), name: SINGLES },
  ],
  asks: ({ name }) =>
    name === 'sluice' || name === 'sluice-metrics' || name === 'sluice-sampled' || name === 'sluice-spans',
  goals: ['sluice-metrics', 'sluice-spans'].flatMap((contestant) =>
    [BATCHES, SINGLES].map((name) => ({
      of: { contestant, case: name },
      over: { contestant: 'sluice', case: name },
      atLeast: name === BATCHES ? 0.95 : 0.9,
    })),
  ),
}
