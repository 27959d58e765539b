import type { Cell, Measured, SampleContext, Size } from '../cell.ts'
import { consumePortions, type PortionsSpec } from '../measure/portions.ts'
import { percentile } from '../statistics.ts'

const EVERY_MS = 20
const MIB = 2 ** 20

export const memory: Cell = {
  name: 'memory',
  title: 'Memory of a process that handles a million messages of 1 KiB',
  measures:
    '1,000,000 messages with 1 KiB of text each go through one process (100 per batch, 4 in flight) in 50 portions, ' +
    'each committed at once while the consumer waits: resident memory, read every 20 ms. Node, its TypeScript ' +
    'loader and the harness are part of it',
  metric: { name: 'peak', unit: 'MiB resident at most', better: 'less' },
  series: { x: 'fiftieths of a million messages', y: 'MiB resident at most in each fiftieth', scale: 'value' },
  cases: [{ name: '', fill: () => ({ messages: 0 }), measure: (context) => measureMemory(context) }],
  asks: ({ consumes }) => consumes !== undefined,
  without: {
    'raw-loop-kept-plans': 'the loop by hand is asked',
    'pg-boss-delete': 'it holds in memory what pg-boss does',
    'graphile-worker': 'a million jobs, one by one, take it minutes; with the local queue it is asked',
  },
  goals: [
    { of: { contestant: 'sluice' }, atMost: 150 },
    { of: { contestant: 'sluice', metric: 'lastOverSecondTenth' }, atMost: 1.1 },
  ],
  mostRounds: 3,
}

export interface MemorySpec extends Pick<PortionsSpec, 'longestPortionMs' | 'longestMs'> {
  /** Into how many portions the messages are divided: a multiple of ten. */
  readonly portions: number
  readonly portion: Size
  /** Events of a log for one group, instead of messages of a queue. */
  readonly groups?: 1
}

export const FIFTIETHS: MemorySpec = {
  portions: 50,
  portion: { full: 20_000, quick: 600 },
  longestPortionMs: 60_000,
  longestMs: 300_000,
}

export async function measureMemory(context: SampleContext, spec: MemorySpec = FIFTIETHS): Promise<Measured> {
  const { portions: count, portion, groups, ...limits } = spec
  const before = rssMiB()
  const portions: number[][] = [[]]
  const timer = setInterval(() => portions.at(-1)?.push(rssMiB()), EVERY_MS)
  const left = await consumePortions(context, {
    portions: count,
    fill: { messages: portion[context.scale], bytes: 1_024, ...(groups && { log: { groups, inFlight: 4 } }) },
    groups,
    ...limits,
    onPortion: () => {
      portions.at(-1)?.push(rssMiB())
      portions.push([])
    },
  })
  clearInterval(timer)
  const tenth = (from: number) => percentile(portions.slice(from, from + count / 10).flat(), 50)
  const metrics = {
    peak: Math.max(...portions.map(mostOf)),
    before,
    lastOverSecondTenth: tenth(count - count / 10) / tenth(count / 10),
  }
  return { metrics, series: portions.slice(0, count).map(mostOf), left }
}

/** A portion may have too many values for the arguments of a function. */
function mostOf(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), 0)
}

function rssMiB(): number {
  return process.memoryUsage.rss() / MIB
}
