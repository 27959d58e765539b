import type { Case, Cell, Size } from '../cell.ts'
import { PER_SECOND, partialDrainCase } from './drain.ts'

const SMALL = 'small backlog'
const LARGE = 'large backlog'
const SCHEDULED = 'small, and many scheduled'

const DRAINED: Size = { full: 45_000, quick: 4_500 }

export const backlog: Cell = {
  name: 'backlog',
  title: 'Claims out of a large backlog',
  measures:
    'The first 45,000 messages out of a backlog of 50,000, of 5,000,000, and of 50,000 beside 1,000,000 that fall due in ' +
    'a day; up to 100 per batch and 4 batches in flight in one process, handlers that do nothing: from the settlement of ' +
    'the first 15,000 to the durable settlement of the last',
  metric: PER_SECOND,
  cases: [
    backlogCase(SMALL, (scale) => ({ messages: { full: 50_000, quick: 5_000 }[scale] })),
    backlogCase(LARGE, (scale) => ({ messages: { full: 5_000_000, quick: 100_000 }[scale] })),
    backlogCase(SCHEDULED, (scale) => ({
      messages: { full: 50_000, quick: 5_000 }[scale],
      scheduled: { full: 1_000_000, quick: 50_000 }[scale],
    })),
  ],
  asks: ({ consumes }) => consumes !== undefined,
  without: {
    'raw-loop-kept-plans': 'the loop by hand is asked',
    'pg-boss-delete': 'it claims as pg-boss does',
    'graphile-worker': 'filling takes too long for what it would show; with the local queue it is asked',
  },
  goals: [LARGE, SCHEDULED].map((name) => ({
    of: { contestant: 'sluice', case: name },
    over: { contestant: 'sluice', case: SMALL },
    atLeast: 0.9,
  })),
  mostRounds: 3,
}

function backlogCase(name: string, fill: Case['fill']): Case {
  return partialDrainCase(name, DRAINED, fill, { batchSize: 100, inFlight: 4, work: 'nothing' })
}
