import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { SampleContext } from '../cell.ts'
import type { FillSpec } from '../contestant.ts'
import { Settled } from './settled.ts'

export interface PortionsSpec {
  readonly portions: number
  /** What each of them is. */
  readonly fill: FillSpec
  /** How long consuming may take in all, in milliseconds; then it is stopped within its portion. */
  readonly longestMs: number
  /** Called after each portion with the rate at which it was consumed. */
  readonly onPortion: (perSecond: number) => void
}

/**
 * Sends messages through one consumer in portions: each becomes visible at once, by one COMMIT, while the consumer
 * waits, so that filling is not part of what is measured. Returns how many messages are left.
 */
export async function consumePortions({ contestant, url }: SampleContext, spec: PortionsSpec): Promise<number> {
  const { consumes } = contestant
  if (consumes === undefined) throw new Error(`${contestant.name} cannot consume`)
  const client = new pg.Client(url)
  await client.connect()
  const settled = new Settled()
  const onSettled = (messages: number) => settled.add(messages)
  const consumer = await consumes.run(url, { batchSize: 100, inFlight: 4, work: 'nothing', onSettled })
  let filled = 0
  let leftMs = spec.longestMs
  while (filled < spec.portions * spec.fill.messages && leftMs > 0) {
    await contestant.fill(client, spec.fill)
    const [from, before] = [performance.now(), settled.count]
    filled += spec.fill.messages
    await Promise.race([settled.reach(filled), sleep(leftMs)])
    const tookMs = performance.now() - from
    leftMs -= tookMs
    spec.onPortion(((settled.count - before) / tookMs) * 1_000)
  }
  await consumer.stop()
  await client.end()
  return filled - settled.count
}
