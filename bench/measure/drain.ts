import type { Measured, SampleContext } from '../cell.ts'
import type { Consumer, ConsumeSpec, Contestant, FillSpec } from '../contestant.ts'
import { Settled } from './settled.ts'

export interface MeasureDrainSpec extends Omit<ConsumeSpec, 'onSettled'> {
  /** How many messages are drained: all that are ready, or only the first ones. */
  readonly messages: number
  /** How many of them pass before the clock starts: connections are open then, and code is compiled. */
  readonly warmUp: number
  /** What was there. */
  readonly filled: FillSpec
  /** With no transaction open while a handler runs. */
  readonly leased?: true | undefined
  /** As events of a log, for so many groups. `messages` and `warmUp` count an event once for each of them. */
  readonly groups?: number | undefined
}

/** Messages per second from the end of the warm-up until all are durably settled. */
export async function measureDrain({ contestant, url }: SampleContext, spec: MeasureDrainSpec): Promise<Measured> {
  const { drains } = contestant
  const { scheduled = 0 } = spec.filled
  const ready = spec.filled.messages * (spec.groups ?? 1)
  if (drains !== undefined && spec.leased === undefined && spec.groups === undefined) {
    const perSecond = await drains.run(url, spec)
    return { metrics: { perSecond }, left: ready + scheduled - spec.messages }
  }
  const settled = new Settled()
  const consumer = await startConsumer(contestant, url, { ...spec, onSettled: (messages) => settled.add(messages) })
  await settled.reach(spec.warmUp)
  const [from, before] = [performance.now(), settled.count]
  await settled.reach(spec.messages)
  const perSecond = ((settled.count - before) / (performance.now() - from)) * 1_000
  await consumer.stop()
  return {
    metrics: { perSecond },
    left: ready + scheduled - settled.count,
    effects: spec.work === 'nothing' ? 0 : settled.count,
  }
}

/** The contestant with handlers that do what `work` says; leased, and of a log, nothing. */
export async function startConsumer(
  { name, consumes, leases, follows }: Contestant,
  url: string,
  { leased, groups, ...spec }: ConsumeSpec & Pick<MeasureDrainSpec, 'leased' | 'groups'>,
): Promise<Consumer> {
  if (groups !== undefined) {
    if (follows === undefined) throw new Error(`${name} cannot read a log`)
    return follows.run(url, { ...spec, groups })
  }
  if (leased === undefined && consumes !== undefined) return consumes.run(url, spec)
  if (leased === undefined || leases === undefined) throw new Error(`${name} cannot consume`)
  const { batchSize, inFlight, onSettled } = spec
  return leases.run(url, { batchSize, inHand: batchSize * inFlight, onSettled })
}
