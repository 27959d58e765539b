import type { Case, Cell, Goal, Size } from '../cell.ts'
import { measureMany } from '../measure/many.ts'
import { PER_SECOND } from './drain.ts'

const PROCESSES = [1, 4, 16, 32]
const BATCH_SIZES = [100, 10]
const FILLED: Size = { full: 500_000, quick: 20_000 }
const WARM_UP: Size = { full: 6_000, quick: 500 }
const WINDOW: Size = { full: 8_000, quick: 1_000 }

export const processes: Cell = {
  name: 'processes',
  title: 'Many worker processes on one queue',
  measures:
    'Up to 500,000 messages that wait, handlers that do nothing, 2 batches in flight per process: messages that all ' +
    'processes settle together in eight seconds, six seconds after the first',
  metric: PER_SECOND,
  cases: casesOf(),
  asks: ({ consumes }) => consumes !== undefined,
  without: {
    'raw-loop-kept-plans': 'the loop by hand is asked',
    'pg-boss-delete': 'pg-boss is asked',
    'graphile-worker': 'with the local queue it is asked',
    'graphile-worker-local-queue': 'each process has one queue for all that it does, so there are no batches in flight',
  },
  goals: BATCH_SIZES.flatMap(goalsOf),
  mostRounds: 3,
}

export const processesKeyed: Cell = {
  name: 'processes-keyed',
  title: 'Many worker processes on one queue, messages with 5,000 ordering keys',
  measures: `${processes.measures}. A key's messages are handled in order`,
  metric: PER_SECOND,
  cases: casesOf(5_000),
  asks: ({ consumes, keepsOrder }) => consumes !== undefined && keepsOrder === true,
  goals: [],
  mostRounds: 3,
}

function casesOf(keys?: number): readonly Case[] {
  return BATCH_SIZES.flatMap((batchSize) => PROCESSES.map((count) => caseOf(count, batchSize, keys)))
}

function nameOf(count: number, batchSize: number): string {
  return `${count} processes, batches of ${batchSize}`
}

function caseOf(count: number, batchSize: number, keys?: number): Case {
  const fill: Case['fill'] = (scale) => ({ messages: FILLED[scale], ...(keys && { keys }) })
  return {
    name: nameOf(count, batchSize),
    // Starting so many processes takes longer than a quick run may.
    ...((count > 4 || batchSize === 10) && { slow: true }),
    fill,
    measure: (context) =>
      measureMany(context, {
        processes: count,
        batchSize,
        inFlight: 2,
        filled: FILLED[context.scale],
        warmUpMs: WARM_UP[context.scale],
        windowMs: WINDOW[context.scale],
      }),
  }
}

function goalsOf(batchSize: number): readonly Goal[] {
  return PROCESSES.flatMap((count) => {
    const name = nameOf(count, batchSize)
    const of = { contestant: 'sluice', case: name }
    return [
      { of, over: { contestant: 'pg-boss', case: name }, atLeast: 1.5 },
      { of, over: { contestant: 'raw-loop', case: name }, atLeast: 0.7 },
    ]
  })
}
