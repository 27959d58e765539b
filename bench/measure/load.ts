import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Measured, SampleContext, Scale } from '../cell.ts'
import type { Contestant } from '../contestant.ts'
import { percentile } from '../statistics.ts'
import { type ListenerReport, startListener } from './listener.ts'
import { monotonicMs } from './monotonic.ts'
import { dueMs, type Schedule, sendOnSchedule } from './schedule.ts'

export interface LoadSpec {
  readonly perSecond: number
  /** How long a handler sleeps. */
  readonly workMs: number
  /** How many handlers run at the same time. Default: as many as in batches, 100 per batch, 4 in flight. */
  readonly atOnce?: number
  /** Default: 20 seconds, of which the first 5 are apart, and a point for each second; less in a quick look. */
  readonly lasts?: Lasts
}

interface Lasts {
  readonly seconds: number
  /** How many seconds are apart: connections open, code is compiled, plans are made. */
  readonly firstSeconds: number
  /** Of how many seconds each point of the series is. */
  readonly pointSeconds: number
}

const LASTS: Readonly<Record<Scale, Lasts>> = {
  full: { seconds: 20, firstSeconds: 5, pointSeconds: 1 },
  quick: { seconds: 3, firstSeconds: 1, pointSeconds: 1 },
}
const WRITERS = 32
/** Until all have their connections, and the clock its thread. */
const START_MS = 200
const LONGEST_DRAIN_MS = 10_000
const LOOK_EVERY_MS = 50

/** Milliseconds from when a message was due to be sent, by a fixed schedule, until its handler starts in another process. */
export async function measureLoad({ contestant, url, scale }: SampleContext, spec: LoadSpec): Promise<Measured> {
  if (contestant.enqueues === undefined) throw new Error(`${contestant.name} cannot enqueue`)
  const { perSecond, workMs, atOnce, lasts = LASTS[scale] } = spec
  const order = { contestant: contestant.name, url, batchSize: 100, inFlight: 4, atOnce, workMs, keepStarts: true }
  const listener = await startListener(order)
  const enqueuer = await contestant.enqueues.run(url)
  const writers = await Promise.all(Array.from({ length: WRITERS }, () => enqueuer.open()))
  const schedule = { fromMs: monotonicMs() + START_MS, perSecond, messages: perSecond * lasts.seconds }
  const sentMs = await sendOnSchedule(writers, schedule)
  await Promise.all(writers.map((writer) => writer.close()))
  await drained(contestant, url)
  const report = await listener.stop()
  await enqueuer.stop()
  refuseSaturated(schedule, sentMs, report)
  return { ...timesOf(schedule, sentMs, report, lasts), left: sentMs.length - report.settled }
}

/** Until all is settled, or for so long that it never will be. */
async function drained(contestant: Contestant, url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  const end = performance.now() + LONGEST_DRAIN_MS
  while (performance.now() < end && (await contestant.unsettled(client)) > 0) await sleep(LOOK_EVERY_MS)
  await client.end()
}

/**
 * A contestant that is more than a second behind at the end of the schedule falls behind for as long as the schedule
 * lasts: its delay is not a latency.
 */
function refuseSaturated(schedule: Schedule, sentMs: readonly number[], { startedMs }: ListenerReport): void {
  const { perSecond, messages } = schedule
  const endMs = dueMs(schedule, messages)
  const sent = sentMs.filter((ms) => ms <= endMs).length
  const started = startedMs.filter(([, ms]) => ms <= endMs).length
  if (messages - started <= perSecond && sentMs.length === messages && startedMs.length >= messages) return
  const rate = (count: number) => Math.round((count / messages) * perSecond).toLocaleString('en')
  const of = perSecond.toLocaleString('en')
  throw new Error(`Saturated: of ${of} due each second ${rate(sent)} were sent and ${rate(started)} handled`)
}

function timesOf(
  schedule: Schedule,
  sentMs: readonly number[],
  { startedMs }: ListenerReport,
  { firstSeconds, pointSeconds }: Lasts,
): Pick<Measured, 'metrics' | 'series'> {
  const { perSecond, messages } = schedule
  const point = perSecond * pointSeconds
  const latencies: number[] = []
  for (const [n, ms] of startedMs) latencies[n] ??= ms - dueMs(schedule, n)
  const untilSent = sentMs.map((ms, n) => ms - dueMs(schedule, n))
  const [first, warm] = [latencies.slice(0, firstSeconds * perSecond), latencies.slice(firstSeconds * perSecond)]
  return {
    metrics: {
      p99: percentile(warm, 99),
      p50: percentile(warm, 50),
      firstP99: percentile(first, 99),
      sentP99: percentile(untilSent.slice(first.length), 99),
    },
    series: Array.from({ length: messages / point }, (_, at) =>
      percentile(latencies.slice(at * point, (at + 1) * point), 99),
    ),
  }
}
