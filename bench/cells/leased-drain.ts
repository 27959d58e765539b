import type { Cell } from '../cell.ts'
import { drainCase, PER_SECOND } from './drain.ts'

export const leasedBatches: Cell = {
  name: 'leased-batches',
  title: 'Drain no-op messages under leases, in batches',
  measures:
    '150,000 messages that wait, handlers that do nothing with no transaction open, up to 100 messages per claim and 400 in ' +
    'flight in one process: from the settlement of the first 50,000 (warm-up) to the durable settlement of the last. Sluice may have ' +
    '400 more that wait to be settled, and the local queue 500 that wait for a handler',
  metric: PER_SECOND,
  cases: [drainCase({ full: 150_000, quick: 15_000 }, { batchSize: 100, inFlight: 4, work: 'nothing', leased: true })],
  asks: ({ leases }) => leases !== undefined,
  without: { 'graphile-worker': 'with the local queue it is asked' },
  goals: [
    { of: { contestant: 'sluice' }, over: { contestant: 'pg-boss' }, atLeast: 1.5 },
    { of: { contestant: 'sluice' }, over: { contestant: 'pg-boss-delete' }, atLeast: 1.2 },
    { of: { contestant: 'sluice' }, over: { contestant: 'graphile-worker-local-queue' }, atLeast: 0.9 },
    { of: { contestant: 'sluice' }, over: { contestant: 'leased-loop' }, atLeast: 0.9 },
  ],
  mostRounds: 3,
}

export const leasedSingles: Cell = {
  name: 'leased-singles',
  title: 'Drain no-op messages under leases, one per claim',
  measures:
    '15,000 messages that wait, handlers that do nothing with no transaction open, one message per claim and 8 in flight ' +
    'in one process: from the settlement of the first 5,000 (warm-up) to the durable settlement of the last',
  metric: PER_SECOND,
  cases: [drainCase({ full: 15_000, quick: 3_000 }, { batchSize: 1, inFlight: 8, work: 'nothing', leased: true })],
  asks: ({ leases }) => leases !== undefined,
  without: { 'graphile-worker-local-queue': 'it fetches and completes in batches' },
  goals: [
    { of: { contestant: 'sluice' }, over: { contestant: 'pg-boss' }, atLeast: 1.5 },
    { of: { contestant: 'sluice' }, over: { contestant: 'graphile-worker' }, atLeast: 0.8 },
    { of: { contestant: 'sluice' }, over: { contestant: 'leased-loop' }, atLeast: 0.9 },
  ],
  mostRounds: 3,
}
