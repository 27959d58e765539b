import pg from 'pg'
import type { Cell, Measured, SampleContext, Size } from '../cell.ts'
import { consumePortions } from '../measure/portions.ts'

const TENTH: Size = { full: 100_000, quick: 3_000 }
const LONGEST_MS: Size = { full: 60_000, quick: 6_000 }

export const pinnedHorizon: Cell = {
  name: 'pinned-horizon',
  title: 'A million messages while an old snapshot holds vacuum back',
  measures:
    'A session that has read once in REPEATABLE READ stays idle in its transaction, so no dead row can be removed. ' +
    '1,000,000 messages go through one process (100 per batch, 4 in flight) in ten portions, each committed at once ' +
    'while the consumer waits: the rate of the last tenth over that of the first. After a minute of consuming the rate ' +
    'of the portion that was reached counts',
  metric: { name: 'lastOverFirst', unit: '× the rate of the first tenth', better: 'more' },
  cases: [{ name: '', fill: () => ({ messages: 0 }), measure }],
  asks: ({ consumes }) => consumes !== undefined,
  goals: [{ of: { contestant: 'sluice' }, atLeast: 0.9 }],
  mostRounds: 3,
}

async function measure(context: SampleContext): Promise<Measured> {
  const messages = TENTH[context.scale]
  // The warm-up is a portion as well: a tenth of a tenth.
  const warmUp = { portions: 1, fill: { messages: messages / 10 }, longestMs: 30_000, onPortion: () => undefined }
  const unsettled = await consumePortions(context, warmUp)
  const client = new pg.Client(context.url)
  await client.connect()
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await client.query('SELECT 1')
  const series: number[] = []
  const left = await consumePortions(context, {
    portions: 10,
    fill: { messages },
    longestMs: LONGEST_MS[context.scale],
    onPortion: (perSecond) => series.push(perSecond),
  })
  await client.query('ROLLBACK')
  await client.end()
  const [firstTenth = 0, lastTenth = 0] = [series[0], series.at(-1)]
  const metrics = { lastOverFirst: lastTenth / firstTenth, firstTenth, lastTenth, tenths: series.length }
  return { metrics, series, left: left + unsettled }
}
