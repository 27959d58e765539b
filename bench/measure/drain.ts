import type { Measured, SampleContext } from '../cell.ts'
import type { ConsumeSpec, FillSpec } from '../contestant.ts'

export interface MeasureDrainSpec extends Omit<ConsumeSpec, 'onSettled'> {
  /** How many messages are drained: all that are ready, or only the first ones. */
  readonly messages: number
  /** How many of them pass before the clock starts: connections are open then, and code is compiled. */
  readonly warmUp: number
  /** What was there. */
  readonly filled: FillSpec
}

/** Messages per second from the end of the warm-up until all are durably settled. */
export async function measureDrain({ contestant, url }: SampleContext, spec: MeasureDrainSpec): Promise<Measured> {
  const { drains, consumes } = contestant
  const { messages: ready, scheduled = 0 } = spec.filled
  if (drains !== undefined) {
    const perSecond = await drains.run(url, spec)
    return { metrics: { perSecond }, left: ready + scheduled - spec.messages }
  }
  if (consumes === undefined) throw new Error(`${contestant.name} cannot consume`)
  const clock = new SettlementClock(spec.warmUp, spec.messages)
  const consumer = await consumes.run(url, { ...spec, onSettled: (messages) => clock.settle(messages) })
  const perSecond = await clock.perSecond
  await consumer.stop()
  return {
    metrics: { perSecond },
    left: ready + scheduled - clock.settled,
    effects: spec.work === 'nothing' ? 0 : clock.settled,
  }
}

/** Starts when the warm-up is settled, and stops when all is. */
class SettlementClock {
  readonly perSecond: Promise<number>
  readonly #done = Promise.withResolvers<number>()
  readonly #warmUp: number
  readonly #messages: number
  #settled = 0
  #start: { readonly at: number; readonly settled: number } | undefined

  constructor(warmUp: number, messages: number) {
    this.#warmUp = warmUp
    this.#messages = messages
    this.perSecond = this.#done.promise
  }

  get settled(): number {
    return this.#settled
  }

  settle(messages: number): void {
    this.#settled += messages
    const now = performance.now()
    if (this.#start === undefined) {
      if (this.#settled >= this.#warmUp) this.#start = { at: now, settled: this.#settled }
    } else if (this.#settled >= this.#messages) {
      this.#done.resolve(((this.#settled - this.#start.settled) / (now - this.#start.at)) * 1_000)
    }
  }
}
