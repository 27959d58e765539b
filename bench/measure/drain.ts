import type { SampleContext } from '../cell.ts'
import type { Work } from '../contestant.ts'

export interface MeasureDrainSpec {
  readonly batchSize: number
  readonly inFlight: number
  /** How many messages wait, the warm-up included. */
  readonly messages: number
  /** How many of them pass before the clock starts: connections are open then, and code is compiled. */
  readonly warmUp: number
  readonly work: Work
}

/** Messages per second from the end of the warm-up until all are durably settled. */
export async function measureDrain({ contestant, url }: SampleContext, spec: MeasureDrainSpec): Promise<number> {
  const { drains, consumes } = contestant
  if (drains !== undefined) return drains.run(url, spec)
  if (consumes === undefined) throw new Error(`${contestant.name} cannot consume`)
  const clock = new SettlementClock(spec.warmUp, spec.messages)
  const consumer = await consumes.run(url, { ...spec, onSettled: (messages) => clock.settled(messages) })
  const perSecond = await clock.perSecond
  await consumer.stop()
  return perSecond
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

  settled(messages: number): void {
    this.#settled += messages
    const now = performance.now()
    if (this.#start === undefined) {
      if (this.#settled >= this.#warmUp) this.#start = { at: now, settled: this.#settled }
    } else if (this.#settled >= this.#messages) {
      this.#done.resolve(((this.#settled - this.#start.settled) / (now - this.#start.at)) * 1_000)
    }
  }
}
