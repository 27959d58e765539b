import type { Cell, SampleContext } from '../cell.ts'
import type { Contestant } from '../contestant.ts'
import { LASTS_MS, measureEndurance, POINT_MS } from '../measure/endurance.ts'
import { measureLoad } from '../measure/load.ts'
import { TableSize } from '../measure/table-size.ts'

const TEN_SECONDS = 'tens of seconds'
const SIZE = { size: { x: TEN_SECONDS, y: 'MiB of tables and indexes', scale: 'value' } } as const

const HOW =
  'Checkpoints and autovacuum come as the server likes. A session keeps a backlog of at least 100,000 messages, which it ' +
  'inserts on the server, 50,000 at a time'

interface LongSpec {
  readonly name: string
  readonly title: string
  readonly measures: string
  readonly among: readonly string[]
  readonly can: (contestant: Contestant) => boolean
  readonly leased?: true
  readonly groups?: number
}

/** Ten minutes of a full backlog. */
const enduring = ({ name, title, measures, among, can, leased, groups }: LongSpec): Cell => ({
  name,
  title,
  measures: `${measures}, for ten minutes. ${HOW}: messages per second, the median of sixty spans of ten seconds`,
  metric: { name: 'perSecond', unit: 'messages/s', better: 'more' },
  series: { x: TEN_SECONDS, y: 'messages/s in each ten seconds', scale: 'value' },
  pictures: SIZE,
  long: true,
  cases: [
    {
      name: '',
      fill: () => ({ messages: 0, ...(groups !== undefined && { log: { groups, inFlight: 4 } }) }),
      measure: (context) => measureEndurance(context, { leased, groups }),
    },
  ],
  asks: (contestant) => among.includes(contestant.name) && can(contestant),
  goals: [{ of: { contestant: 'sluice', metric: 'secondOverFirst' }, atLeast: 0.9 }],
  mostRounds: 1,
})

const PEERS = ['sluice', 'pg-boss-delete', 'graphile-worker-local-queue']

const longDrain = enduring({
  name: 'long-drain',
  title: 'Ten minutes of batches',
  measures: 'Handlers that do nothing, up to 100 messages per batch and 4 batches in flight in one process',
  among: PEERS,
  can: ({ consumes }) => consumes !== undefined,
})

const longLeased = enduring({
  name: 'long-leased',
  title: 'Ten minutes of batches under leases',
  measures: 'Handlers that do nothing, up to 100 messages per claim and 400 in flight in one process, under leases',
  among: PEERS,
  can: ({ leases }) => leases !== undefined,
  leased: true,
})

const longStream = enduring({
  name: 'long-stream',
  title: 'Ten minutes of a group that reads a stream',
  measures: 'A group with 4 batches of up to 100 events in flight in one process',
  among: ['sluice', 'raw-log'],
  can: ({ follows }) => follows !== undefined,
  groups: 1,
})

const PER_SECOND = 500

const longMixed: Cell = {
  name: 'long-mixed',
  title: 'Ten minutes of enqueueing and consuming, 500 a second',
  measures:
    'As latency-load, 500 messages a second for ten minutes, each in a transaction of its own, to a consumer in another process whose ' +
    'handlers do nothing. Checkpoints and autovacuum come as the server likes: from when a message was due to be sent to the ' +
    'start of its handler, the 99th percentile of all but the first ten seconds',
  metric: { name: 'p99', unit: 'ms, p99', better: 'less' },
  series: { x: TEN_SECONDS, y: 'p99 of each ten seconds, ms', scale: 'log' },
  pictures: SIZE,
  long: true,
  cases: [{ name: '', fill: () => ({ messages: 0 }), measure: measureMixed }],
  asks: ({ name, listens, enqueues }) =>
    ['sluice', 'pg-boss', 'graphile-worker-local-queue'].includes(name) &&
    listens !== undefined &&
    enqueues !== undefined,
  goals: [{ of: { contestant: 'sluice' }, atMost: 20 }],
  mostRounds: 1,
}

async function measureMixed(context: SampleContext) {
  await using tables = await TableSize.of(context)
  const sizes: number[] = []
  const looking = setInterval(() => void tables.read().then((size) => sizes.push(size)), POINT_MS[context.scale])
  const point = POINT_MS[context.scale] / 1_000
  const lasts = { seconds: LASTS_MS[context.scale] / 1_000, firstSeconds: point, pointSeconds: point }
  const measured = await measureLoad(context, { perSecond: PER_SECOND, workMs: 0, lasts })
  clearInterval(looking)
  return { ...measured, metrics: { ...measured.metrics, size: Math.max(...sizes) }, pictures: { size: sizes } }
}

/** Of the same, on the server that DATABASE_URL names: Debian's PostgreSQL 15, as it comes, with JIT. */
const onDebian = (cell: Cell): Cell => ({
  ...cell,
  name: `${cell.name}-15`,
  title: `${cell.title}, on PostgreSQL 15`,
  measures: `${cell.measures}. On the PostgreSQL 15 of Debian, with the settings of its package`,
  asks: (contestant) => process.env.DATABASE_URL !== undefined && cell.asks(contestant),
})

const onOwn = (cell: Cell): Cell => ({
  ...cell,
  asks: (contestant) => process.env.DATABASE_URL === undefined && cell.asks(contestant),
})

/** With samples of ten minutes. */
export const LONG_CELLS: readonly Cell[] = [longDrain, longLeased, longStream, longMixed].flatMap((cell) => [
  onOwn(cell),
  onDebian(cell),
])
