import pg from 'pg'
import type { Cell, Measured, SampleContext, Size } from '../cell.ts'
import { consumePortions } from '../measure/portions.ts'

const TENTH: Size = { full: 100_000, quick: 3_000 }
const LEASED_TENTH: Size = { full: 30_000, quick: 3_000 }
/** A portion, and all of them: enough to see how far it has come. */
const LONGEST_MS: Size = { full: 30_000, quick: 3_000 }

export const pinnedHorizon: Cell = {
  name: 'pinned-horizon',
  title: 'A million messages while an old snapshot holds vacuum back',
  measures:
    'A session that has read once in REPEATABLE READ stays idle in its transaction, so no dead row can be removed. ' +
    '1,000,000 messages go through one process (100 per batch, 4 in flight) in ten portions, each committed at once ' +
    'while the consumer waits, after one for warming up: the rate of the last tenth over that of the first. A portion ' +
    'that takes longer than 30 seconds is the last, and so is the one in which a minute of consuming is over',
  metric: { name: 'lastOverFirst', unit: '× the rate of the first tenth', better: 'more' },
  series: { x: 'tenths of a million messages', y: 'messages/s in each tenth', scale: 'log' },
  cases: [{ name: '', fill: () => ({ messages: 0 }), measure: (context) => measurePinned(context, { tenth: TENTH }) }],
  asks: ({ consumes }) => consumes !== undefined,
  without: { 'raw-loop-kept-plans': 'the loop by hand is asked' },
  goals: [{ of: { contestant: 'sluice' }, atLeast: 0.9 }],
  mostRounds: 3,
}

export const leasedPinnedHorizon: Cell = {
  ...pinnedHorizon,
  name: 'leased-pinned-horizon',
  title: '300,000 messages under leases while an old snapshot holds vacuum back',
  measures:
    'As pinned-horizon, in leased mode: 300,000 messages go through one process (100 per claim, 400 in flight) in ten ' +
    'portions, after one for warming up: the rate of the last tenth over that of the first',
  series: { x: 'tenths of 300,000 messages', y: 'messages/s in each tenth', scale: 'value' },
  cases: [
    {
      name: '',
      fill: () => ({ messages: 0 }),
      measure: (context) => measurePinned(context, { tenth: LEASED_TENTH, leased: true }),
    },
  ],
  asks: ({ name }) => name === 'sluice',
  without: {},
}

interface PinnedSpec {
  readonly tenth: Size
  readonly leased?: true
  /** As events of a log, for one group. */
  readonly log?: true
}

export async function measurePinned(context: SampleContext, { tenth, leased, log }: PinnedSpec): Promise<Measured> {
  const longestPortionMs = LONGEST_MS[context.scale]
  const groups = log && 1
  const fill = { messages: tenth[context.scale], ...(log && { log: { groups: 1, inFlight: 4 } }) }
  const portions = { fill, longestPortionMs, longestMs: 2 * longestPortionMs, leased, groups }
  const unsettled = await consumePortions(context, { ...portions, portions: 1, onPortion: () => undefined })
  const client = new pg.Client(context.url)
  await client.connect()
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await client.query('SELECT 1')
  const series: number[] = []
  const onPortion = (perSecond: number) => series.push(perSecond)
  const left = await consumePortions(context, { ...portions, portions: 10, onPortion })
  await client.query('ROLLBACK')
  await client.end()
  const [firstTenth = 0, lastTenth = 0] = [series[0], series.at(-1)]
  const metrics = { lastOverFirst: lastTenth / firstTenth, firstTenth, lastTenth, tenths: series.length }
  return { metrics, series, left: left + unsettled }
}
