import { Backoff } from '../basics/time/backoff.ts'

/**
 * For how long a batch with some answers keeps its messages without one, which would be published again at once: 10 ms, then twice
 * as long each time up to a second.
 */
export class Hold {
  readonly #backoff: Backoff
  #untilMs = 0

  constructor(random: () => number = Math.random) {
    this.#backoff = new Backoff(10, MOST_MS, random)
  }

  /** Of the next such batch. Other batches have all their answers meanwhile, so only time says that it is over. */
  next(nowMs: number): number {
    if (nowMs > this.#untilMs + 2 * MOST_MS) this.#backoff.reset()
    const ms = this.#backoff.next()
    this.#untilMs = nowMs + ms
    return ms
  }
}

const MOST_MS = 1_000
