import { setTimeout as sleep } from 'node:timers/promises'
import type { Measured, SampleContext, Size } from '../cell.ts'
import type { Contestant, Enqueuer, Writer } from '../contestant.ts'
import { percentile } from '../statistics.ts'
import { type ListenerReport, startListener } from './listener.ts'
import { monotonicMs } from './monotonic.ts'

export interface WritersSpec {
  readonly writers: number
  /** How many messages in each transaction. @default 1 */
  readonly many?: number
  /** How long each rests after a transaction, in milliseconds. @default 0 */
  readonly restMs?: number
  /** Beside a consumer whose handler sleeps so long. Default: without a consumer. */
  readonly workMs?: number
  /** How many batches that consumer has in flight at most. @default 1 */
  readonly inFlight?: number
  /** Appends to a log that so many groups are to read. Default: enqueues. */
  readonly groups?: number
  /** Whether to measure as well how long a message takes from the sending of its COMMIT to the start of its handler. */
  readonly latency?: true
}

const WARM_UP_MS: Size = { full: 1_000, quick: 300 }
const MEASURED_MS: Size = { full: 3_000, quick: 500 }

/** Messages per second that writers commit, each in a loop of its own. */
export async function measureWriters({ contestant, url, scale }: SampleContext, spec: WritersSpec): Promise<Measured> {
  const { writers, workMs, inFlight, latency } = spec
  const listener =
    workMs === undefined
      ? undefined
      : await startListener({
          contestant: contestant.name,
          url,
          batchSize: 10,
          inFlight,
          workMs,
          keepStarts: latency === true,
        })
  const enqueuer = await openEnqueuer(contestant, url, spec)
  const opened = await Promise.all(Array.from({ length: writers }, () => enqueuer.open()))
  const count: Count = { written: 0, begun: 0, sentMs: [] }
  const start = performance.now() + WARM_UP_MS[scale]
  const end = start + MEASURED_MS[scale]
  const written = opened.map((writer) => writeUntil(writer, end, count, spec))
  await new Promise((resolve) => setTimeout(resolve, start - performance.now()))
  const [from, before] = [performance.now(), count.written]
  await Promise.all(written)
  const perSecond = ((count.written - before) / (performance.now() - from)) * 1_000
  await Promise.all(opened.map((writer) => writer.close()))
  await enqueuer.stop()
  const report = await listener?.stop()
  const latencies = latency && report !== undefined ? latenciesOf(report, count.sentMs, before) : {}
  return { metrics: { perSecond, ...latencies }, left: count.written * (spec.groups ?? 1) - (report?.settled ?? 0) }
}

async function openEnqueuer(
  { name, enqueues, appends }: Contestant,
  url: string,
  { groups }: Pick<WritersSpec, 'groups'>,
): Promise<Enqueuer> {
  if (groups !== undefined && appends !== undefined) return appends.run(url, groups)
  if (groups !== undefined || enqueues === undefined) throw new Error(`${name} cannot enqueue`)
  return enqueues.run(url)
}

interface Count {
  written: number
  begun: number
  /** When each message's COMMIT was sent. */
  readonly sentMs: number[]
}

async function writeUntil(writer: Writer, end: number, count: Count, { many, restMs }: WritersSpec): Promise<void> {
  const messages = Array.from({ length: many ?? 1 }, (_, n) => ({ n }))
  while (performance.now() < end) {
    if (many === undefined) await writeOne(writer, count)
    else await writer.enqueueMany(messages)
    count.written += messages.length
    if (restMs !== undefined) await sleep(restMs)
  }
}

async function writeOne(writer: Writer, count: Count): Promise<void> {
  const n = count.begun++
  await writer.enqueue({ n }, () => {
    count.sentMs[n] = monotonicMs()
  })
}

function latenciesOf({ startedMs }: ListenerReport, sentMs: readonly number[], from: number) {
  const latencies = startedMs.filter(([n]) => n >= from).map(([n, startMs]) => startMs - (sentMs[n] ?? Number.NaN))
  return { p50: percentile(latencies, 50), p99: percentile(latencies, 99) }
}
