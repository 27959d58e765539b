import type { Case, Cell, Size } from '../cell.ts'
import { PER_SECOND, partialDrainCase } from './drain.ts'

const UNORDERED = 'no keys'
const MANY = '5,000 keys'
const HOT = 'one key'
const OWN = 'a key each'
const HOT_AND_LONG = 'one key, ten times the backlog'

const DRAINED: Size = { full: 45_000, quick: 4_500 }

export const ordering: Cell = {
  name: 'ordering',
  title: 'Messages in order of their keys',
  measures:
    '45,000 messages, up to 100 per batch and 4 batches in flight in one process, handlers that do nothing: from the ' +
    'settlement of the first 15,000 to the durable settlement of the last. With one key no two batches can be in flight',
  metric: PER_SECOND,
  cases: [
    orderingCase(UNORDERED, (scale) => ({ messages: DRAINED[scale] })),
    orderingCase(MANY, (scale) => ({ messages: DRAINED[scale], keys: 5_000 })),
    orderingCase(HOT, (scale) => ({ messages: DRAINED[scale], keys: 1 })),
    orderingCase(HOT_AND_LONG, (scale) => ({ messages: 10 * DRAINED[scale], keys: 1 })),
  ],
  asks: ({ keepsOrder, consumes }) => keepsOrder === true && consumes !== undefined,
  goals: [
    { of: { contestant: 'sluice', case: MANY }, over: { contestant: 'sluice', case: UNORDERED }, atLeast: 0.85 },
    { of: { contestant: 'sluice', case: HOT }, over: { contestant: 'sluice', case: UNORDERED }, atLeast: 0.65 },
    {
      of: { contestant: 'sluice', case: HOT_AND_LONG },
      over: { contestant: 'sluice', case: HOT },
      atLeast: 0.9,
    },
  ],
}

export const leasedOrdering: Cell = {
  name: 'leased-ordering',
  title: 'Messages in order of their keys, under leases',
  measures:
    '45,000 messages, up to 100 per claim and 400 in flight in one process, handlers that do nothing with no transaction open: from the ' +
    'settlement of the first 15,000 to the durable settlement of the last',
  metric: PER_SECOND,
  cases: [
    orderingCase(UNORDERED, (scale) => ({ messages: DRAINED[scale] }), true),
    orderingCase(MANY, (scale) => ({ messages: DRAINED[scale], keys: 5_000 }), true),
    orderingCase(OWN, (scale) => ({ messages: DRAINED[scale], keys: DRAINED[scale] }), true),
  ],
  asks: ({ keepsOrder, leases }) => keepsOrder === true && leases !== undefined,
  goals: [MANY, OWN].map((name) => ({
    of: { contestant: 'sluice', case: name },
    over: { contestant: 'sluice', case: UNORDERED },
    atLeast: 0.5,
  })),
}

function orderingCase(name: string, fill: Case['fill'], leased?: true): Case {
  return partialDrainCase(name, DRAINED, fill, {
    batchSize: 100,
    inFlight: 4,
    work: 'nothing',
    ...(leased && { leased }),
  })
}
