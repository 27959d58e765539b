import type { Case, Cell } from '../cell.ts'
import { partialDrainCase } from './drain.ts'
import { FIFTIETHS, measureMemory, memory } from './memory.ts'
import { measurePinned, pinnedHorizon } from './pinned-horizon.ts'

const EVENTS_PER_SECOND = { name: 'perSecond', unit: 'events/s', better: 'more' } as const
const BATCHES = [100, 500].flatMap((batchSize) => [1, 4].map((members) => ({ batchSize, members })))
const batchesName = ({ batchSize, members }: (typeof BATCHES)[number]) =>
  `batches of ${batchSize}, ${members} ${members === 1 ? 'member' : 'members'}`

export const streamGroup: Cell = {
  name: 'stream-group',
  title: 'A group that reads a stream',
  measures:
    '150,000 events that wait, handlers that do nothing, up to 100 or 500 events per batch, and 1 or 4 batches in flight in one process: from ' +
    'the settlement of the first 50,000 (warm-up) to the durable settlement of the last. By hand: loops that read in order and store ' +
    'their position in the same transaction, each in a slot of its own. pg-boss: the jobs of one queue',
  metric: EVENTS_PER_SECOND,
  cases: BATCHES.map((batch) =>
    followCase(batchesName(batch), 150_000, { groups: 1, inFlight: batch.members, batchSize: batch.batchSize }),
  ),
  asks: ({ follows }) => follows !== undefined,
  goals: BATCHES.map((batch) => ({
    of: { contestant: 'sluice', case: batchesName(batch) },
    over: { contestant: 'raw-log', case: batchesName(batch) },
    atLeast: 0.75,
  })),
}

const ONE_GROUP = 'one group'
const THREE_GROUPS = 'three groups'

export const streamGroups: Cell = {
  name: 'stream-groups',
  title: 'One group and three on one stream',
  measures:
    '150,000 events that wait, which one group reads, or each of three in the same process; up to 100 events per batch and 4 batches in flight ' +
    'per group, handlers that do nothing. An event counts once for each group. pg-boss: a copy of each event for each group',
  metric: EVENTS_PER_SECOND,
  cases: [
    followCase(ONE_GROUP, 150_000, { groups: 1, inFlight: 4, batchSize: 100 }),
    followCase(THREE_GROUPS, 150_000, { groups: 3, inFlight: 4, batchSize: 100 }),
  ],
  asks: ({ follows }) => follows !== undefined,
  goals: [
    // Three times the work in at most 1.2 times three times the time.
    {
      of: { contestant: 'sluice', case: THREE_GROUPS },
      over: { contestant: 'sluice', case: ONE_GROUP },
      atLeast: 0.83,
    },
  ],
}

const PGQ_BATCHES = BATCHES.filter(({ members }) => members === 1)

export const streamPgq: Cell = {
  ...streamGroup,
  name: 'stream-pgq',
  title: 'A group that reads a stream, beside PgQ',
  measures:
    "As stream-group with one member, on a server that has the extension pgq: Debian's PostgreSQL 15. PgQ hands out what lies between " +
    'two ticks; the fill makes one after each 100 or 500 events, so ticks cost nothing here',
  cases: PGQ_BATCHES.map((batch) =>
    followCase(batchesName(batch), 150_000, { groups: 1, inFlight: 1, batchSize: batch.batchSize }),
  ),
  // All of them on the same server, which is not the one that the bench brings.
  asks: ({ name }) => process.env.DATABASE_URL !== undefined && ['sluice', 'raw-log', 'pgq'].includes(name),
  goals: PGQ_BATCHES.map((batch) => ({
    of: { contestant: 'sluice', case: batchesName(batch) },
    over: { contestant: 'pgq', case: batchesName(batch) },
    atLeast: 1.2,
  })),
}

export const streamCatchUp: Cell = {
  name: 'stream-catch-up',
  title: 'A new group over old events',
  measures:
    '300,000 events that a new group reads from the start, up to 500 per batch and 4 batches in flight, handlers that do nothing: from the ' +
    'settlement of the first 100,000 to the durable settlement of the last. Beside it a SELECT of the same rows in Node, in pages of 2,000',
  metric: EVENTS_PER_SECOND,
  cases: [followCase('', 300_000, { groups: 1, inFlight: 4, batchSize: 500 })],
  asks: ({ follows }) => follows !== undefined,
  without: { 'pg-boss-publish': 'a queue that subscribes later gets none of the earlier events' },
  goals: [{ of: { contestant: 'sluice' }, over: { contestant: 'raw-select' }, atLeast: 0.5 }],
}

export const streamPinnedHorizon: Cell = {
  ...pinnedHorizon,
  name: 'stream-pinned-horizon',
  title: 'A million events while an old snapshot holds vacuum back',
  measures:
    'As pinned-horizon, for a group of a stream: 1,000,000 events go through one process (100 per batch, 4 in flight) in ten portions, ' +
    'after one for warming up: the rate of the last tenth over that of the first',
  series: { x: 'tenths of a million events', y: 'events/s in each tenth', scale: 'log' },
  cases: [
    {
      name: '',
      fill: () => ({ messages: 0 }),
      measure: (context) => measurePinned(context, { tenth: { full: 100_000, quick: 3_000 }, log: true }),
    },
  ],
  asks: ({ follows }) => follows !== undefined,
  without: {},
}

export const streamMemory: Cell = {
  ...memory,
  name: 'stream-memory',
  title: 'Memory of a process that reads a million events of 1 KiB',
  measures:
    'As memory, for a group of a stream: 1,000,000 events with 1 KiB of text each go through one process (100 per batch, 4 in flight) in 50 ' +
    'portions: resident memory, read every 20 ms',
  series: { x: 'fiftieths of a million events', y: 'MiB resident at most in each fiftieth', scale: 'value' },
  cases: [
    {
      name: '',
      fill: () => ({ messages: 0 }),
      measure: (context) => measureMemory(context, { ...FIFTIETHS, groups: 1 }),
    },
  ],
  asks: ({ follows }) => follows !== undefined,
  without: {},
  goals: [
    { of: { contestant: 'sluice' }, over: { contestant: 'raw-log' }, atMost: 1.25 },
    { of: { contestant: 'sluice', metric: 'lastOverSecondTenth' }, atMost: 1.1 },
  ],
}

function followCase(
  name: string,
  full: number,
  spec: { readonly groups: number; readonly inFlight: number; readonly batchSize: number },
): Case {
  const size = { full, quick: full / 10 }
  const fill: Case['fill'] = (scale) => ({ messages: size[scale], log: spec })
  return partialDrainCase(name, size, fill, { ...spec, work: 'nothing' })
}
