import type { Cell, SampleContext } from '../cell.ts'
import { measureDrain } from '../measure/drain.ts'

const PER_SECOND = { name: 'perSecond', unit: 'messages/s', better: 'more' } as const

const BATCHES = { full: 220_000, quick: 22_000 }

export const drainBatches: Cell = {
  name: 'drain-batches',
  title: 'Drain no-op messages in batches',
  measures:
    '200,000 messages that wait, handlers that do nothing, up to 100 messages per batch and 4 batches in flight in one ' +
    'process: from the settlement of the first 20,000 (warm-up) to the durable settlement of the last',
  metric: PER_SECOND,
  cases: [
    {
      name: '',
      filled: BATCHES,
      measure: (context) => drainAll(context, BATCHES, { batchSize: 100, inFlight: 4 }),
    },
  ],
  contestants: ['pgbench', 'raw-loop', 'sluice', 'pg-boss', 'graphile-worker', 'graphile-worker-local-queue'],
  goals: [
    { of: { contestant: 'sluice' }, over: { contestant: 'raw-loop' }, atLeast: 0.8 },
    { of: { contestant: 'sluice' }, over: { contestant: 'pg-boss' }, atLeast: 2.5 },
    { of: { contestant: 'sluice' }, over: { contestant: 'graphile-worker-local-queue' }, atLeast: 3 },
  ],
}

const SINGLES = { full: 22_000, quick: 5_632 }

export const drainSingles: Cell = {
  name: 'drain-singles',
  title: 'Drain no-op messages, one per transaction',
  measures:
    '20,000 messages that wait, handlers that do nothing, one message per transaction and 8 in flight in one process: ' +
    'from the settlement of the first 2,000 (warm-up) to the durable settlement of the last',
  metric: PER_SECOND,
  cases: [
    {
      name: '',
      filled: SINGLES,
      measure: (context) => drainAll(context, SINGLES, { batchSize: 1, inFlight: 8 }),
    },
  ],
  contestants: ['pgbench', 'raw-loop', 'sluice', 'pg-boss', 'graphile-worker'],
  goals: [
    { of: { contestant: 'sluice' }, over: { contestant: 'raw-loop' }, atLeast: 0.8 },
    { of: { contestant: 'sluice' }, over: { contestant: 'pg-boss' }, atLeast: 3 },
  ],
}

/** Drains what is there, of which the first eleventh is the warm-up. */
async function drainAll(
  context: SampleContext,
  size: Cell['cases'][number]['filled'],
  spec: { readonly batchSize: number; readonly inFlight: number },
) {
  const messages = size[context.scale]
  const perSecond = await measureDrain(context, { ...spec, messages, warmUp: messages / 11, work: { kind: 'nothing' } })
  return { metrics: { perSecond }, left: 0 }
}
