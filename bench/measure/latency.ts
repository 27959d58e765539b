import { setTimeout as sleep } from 'node:timers/promises'
import type { Measured, SampleContext, Size } from '../cell.ts'
import type { Enqueuer } from '../contestant.ts'
import { percentile } from '../statistics.ts'
import { startListener } from './listener.ts'
import { monotonicMs } from './monotonic.ts'

const WARM_UP = 20

/** Milliseconds from sending COMMIT to the start of the handler in another process. */
export async function measureLatency({ contestant, url, scale }: SampleContext, size: Size): Promise<Measured> {
  const { enqueues } = contestant
  if (enqueues === undefined) throw new Error(`${contestant.name} cannot enqueue`)
  const listener = await startListener({ contestant: contestant.name, url, batchSize: 10, workMs: 0, keepStarts: true })
  const enqueuer = await enqueues.run(url)
  const sentMs = await sendOneByOne(enqueuer, WARM_UP + size[scale])
  await enqueuer.stop()
  const { settled, startedMs } = await listener.stop()
  const latencies = startedMs.filter(([n]) => n >= WARM_UP).map(([n, startMs]) => startMs - (sentMs[n] ?? Number.NaN))
  return {
    metrics: {
      p50: percentile(latencies, 50),
      p90: percentile(latencies, 90),
      p99: percentile(latencies, 99),
      most: Math.max(...latencies),
    },
    left: sentMs.length - settled,
  }
}

/** When each message's COMMIT was sent. */
async function sendOneByOne(enqueuer: Enqueuer, messages: number): Promise<readonly number[]> {
  const writer = await enqueuer.open()
  const sentMs: number[] = []
  for (let n = 0; n < messages; n++) {
    await writer.enqueue({ n }, () => sentMs.push(monotonicMs()))
    await sleep(10 + Math.random() * 20)
  }
  await writer.close()
  return sentMs
}
