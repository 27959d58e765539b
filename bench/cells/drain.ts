import type { Case, Cell, Size } from '../cell.ts'
import { type MeasureDrainSpec, measureDrain } from '../measure/drain.ts'

export const PER_SECOND = { name: 'perSecond', unit: 'messages/s', better: 'more' } as const

export const drainBatches: Cell = {
  name: 'drain-batches',
  title: 'Drain no-op messages in batches',
  measures:
    '300,000 messages that wait, handlers that do nothing, up to 100 messages per batch and 4 batches in flight in one ' +
    'process: from the settlement of the first 100,000 (warm-up) to the durable settlement of the last',
  metric: PER_SECOND,
  cases: [drainCase({ full: 300_000, quick: 30_000 }, { batchSize: 100, inFlight: 4, work: 'nothing' })],
  asks: ({ drains, consumes }) => drains !== undefined || consumes !== undefined,
  goals: [
    { of: { contestant: 'sluice' }, over: { contestant: 'raw-loop' }, atLeast: 0.8 },
    { of: { contestant: 'sluice' }, over: { contestant: 'pg-boss' }, atLeast: 2.5 },
    { of: { contestant: 'sluice' }, over: { contestant: 'graphile-worker-local-queue' }, atLeast: 3 },
  ],
}

export const drainSingles: Cell = {
  name: 'drain-singles',
  title: 'Drain no-op messages, one per transaction',
  measures:
    '30,000 messages that wait, handlers that do nothing, one message per transaction and 8 in flight in one process: ' +
    'from the settlement of the first 10,000 (warm-up) to the durable settlement of the last',
  metric: PER_SECOND,
  cases: [drainCase({ full: 30_000, quick: 6_000 }, { batchSize: 1, inFlight: 8, work: 'nothing' })],
  asks: ({ drains, consumes }) => drains !== undefined || consumes !== undefined,
  without: { 'graphile-worker-local-queue': 'it fetches and completes in batches' },
  goals: [
    { of: { contestant: 'sluice' }, over: { contestant: 'raw-loop' }, atLeast: 0.8 },
    { of: { contestant: 'sluice' }, over: { contestant: 'pg-boss' }, atLeast: 3 },
  ],
}

type DrainCaseSpec = Pick<MeasureDrainSpec, 'batchSize' | 'inFlight' | 'work' | 'leased' | 'groups'>

/** Drains all that is there. */
export function drainCase(size: Size, spec: DrainCaseSpec): Case {
  return partialDrainCase('', size, (scale) => ({ messages: size[scale] }), spec)
}

/**
 * Drains the first `size` messages of what is there. The first third is the warm-up: connections are opened, and it takes V8 tens of thousands of
 * messages to compile all that they pass through.
 */
export function partialDrainCase(name: string, size: Size, fill: Case['fill'], spec: DrainCaseSpec): Case {
  return {
    name,
    fill,
    measure: (context) => {
      const messages = size[context.scale] * (spec.groups ?? 1)
      return measureDrain(context, { ...spec, messages, warmUp: messages / 3, filled: fill(context.scale) })
    },
  }
}
