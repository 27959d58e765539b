import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { SampleContext } from '../cell.ts'
import type { FillSpec } from '../contestant.ts'
import { type MeasureDrainSpec, startConsumer } from './drain.ts'
import { Settled } from './settled.ts'

export interface PortionsSpec extends Pick<MeasureDrainSpec, 'leased' | 'groups'> {
  readonly portions: number
  /** What each of them is. */
  readonly fill: FillSpec
  /** After how many milliseconds a portion is given up, and the rest with it. */
  readonly longestPortionMs: number
  /** After how many milliseconds of consuming no other portion begins. */
  readonly longestMs: number
  /** Called after each portion with the rate at which it was consumed. */
  readonly onPortion: (perSecond: number) => void
}

/**
 * Sends messages through one consumer in portions: each becomes visible at once, by one COMMIT, while the consumer
 * waits, so that filling is not part of what is measured. Returns how many messages are left.
 */
export async function consumePortions({ contestant, url }: SampleContext, spec: PortionsSpec): Promise<number> {
  const client = new pg.Client(url)
  await client.connect()
  const settled = new Settled()
  const onSettled = (messages: number) => settled.add(messages)
  const { leased, groups } = spec
  const consumer = await startConsumer(contestant, url, {
    batchSize: 100,
    inFlight: 4,
    work: 'nothing',
    leased,
    groups,
    onSettled,
  })
  let [filled, tookMs] = [0, 0]
  while (filled < spec.portions * spec.fill.messages && filled === settled.count && tookMs < spec.longestMs) {
    await contestant.fill(client, spec.fill)
    const [from, before] = [performance.now(), settled.count]
    filled += spec.fill.messages
    await Promise.race([settled.reach(filled), sleep(spec.longestPortionMs, undefined, { ref: false })])
    const ms = performance.now() - from
    tookMs += ms
    spec.onPortion(((settled.count - before) / ms) * 1_000)
  }
  await consumer.stop()
  await client.end()
  return filled - settled.count
}
