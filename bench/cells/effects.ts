import type { Cell } from '../cell.ts'
import { drainCase, PER_SECOND } from './drain.ts'

export const effectsEach: Cell = {
  name: 'effects-each',
  title: 'Handlers that insert one row each',
  measures:
    '60,000 messages that wait, a handler per message that awaits one INSERT, up to 50 messages per batch and 4 batches ' +
    'in flight in one process: from the settlement of the first 20,000 to the durable settlement of the last. By hand: ' +
    'SAVEPOINT, INSERT and RELEASE per message, so that one that fails leaves no trace. pg-boss: the batch succeeds or ' +
    'fails as a whole. graphile-worker: the effect is committed before its job, and happens again if the process dies',
  metric: PER_SECOND,
  cases: [drainCase({ full: 60_000, quick: 6_000 }, { batchSize: 50, inFlight: 4, work: 'insert each' })],
  asks: ({ consumes }) => consumes !== undefined,
  without: { 'raw-loop-kept-plans': 'the loop by hand is asked' },
  goals: [
    { of: { contestant: 'sluice' }, over: { contestant: 'raw-loop' }, atLeast: 0.75 },
    { of: { contestant: 'sluice' }, over: { contestant: 'pg-boss' }, atLeast: 1 },
  ],
}

export const effectsBatch: Cell = {
  name: 'effects-batch',
  title: 'A batch handler that inserts the rows of its batch by one statement',
  measures:
    '150,000 messages that wait, a handler per batch that awaits one INSERT … SELECT unnest, up to 100 messages per ' +
    'batch and 4 batches in flight in one process: from the settlement of the first 50,000 to the durable settlement of ' +
    'the last',
  metric: PER_SECOND,
  cases: [drainCase({ full: 150_000, quick: 15_000 }, { batchSize: 100, inFlight: 4, work: 'insert batch' })],
  asks: ({ consumes }) => consumes !== undefined,
  without: {
    'raw-loop-kept-plans': 'the loop by hand is asked',
    'graphile-worker': 'it has no batches of jobs, only payloads that are arrays',
    'graphile-worker-local-queue': 'it has no batches of jobs, only payloads that are arrays',
  },
  goals: [{ of: { contestant: 'sluice' }, over: { contestant: 'raw-loop' }, atLeast: 0.8 }],
}
