import type { Measured, SampleContext, Size } from '../cell.ts'
import type { Writer } from '../contestant.ts'
import { startListener } from './listener.ts'

export interface WritersSpec {
  readonly writers: number
  /** How many messages in each transaction. @default 1 */
  readonly many?: number
  /** Beside a consumer whose handler sleeps so long. Default: without a consumer. */
  readonly workMs?: number
}

const WARM_UP_MS: Size = { full: 1_000, quick: 300 }
const MEASURED_MS: Size = { full: 3_000, quick: 500 }

/** Messages per second that writers commit, each in a loop of its own. */
export async function measureWriters({ contestant, url, scale }: SampleContext, spec: WritersSpec): Promise<Measured> {
  const { enqueues } = contestant
  if (enqueues === undefined) throw new Error(`${contestant.name} cannot enqueue`)
  const { writers, many, workMs } = spec
  const listener =
    workMs === undefined
      ? undefined
      : await startListener({ contestant: contestant.name, url, batchSize: 10, workMs, keepStarts: false })
  const enqueuer = await enqueues.run(url)
  const opened = await Promise.all(Array.from({ length: writers }, () => enqueuer.open()))
  const count = { written: 0 }
  const start = performance.now() + WARM_UP_MS[scale]
  const end = start + MEASURED_MS[scale]
  const written = opened.map((writer) => writeUntil(writer, end, count, many))
  await new Promise((resolve) => setTimeout(resolve, start - performance.now()))
  const [from, before] = [performance.now(), count.written]
  await Promise.all(written)
  const perSecond = ((count.written - before) / (performance.now() - from)) * 1_000
  await Promise.all(opened.map((writer) => writer.close()))
  await enqueuer.stop()
  const report = await listener?.stop()
  return { metrics: { perSecond }, left: count.written - (report?.settled ?? 0) }
}

async function writeUntil(writer: Writer, end: number, count: { written: number }, many?: number): Promise<void> {
  const messages = Array.from({ length: many ?? 1 }, (_, n) => ({ n }))
  const [message] = messages
  if (message === undefined) return
  while (performance.now() < end) {
    await (many === undefined ? writer.enqueue(message) : writer.enqueueMany(messages))
    count.written += messages.length
  }
}
