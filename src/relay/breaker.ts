import { Backoff } from '../basics/time/backoff.ts'
import type { BreakerPlan } from './options.ts'

/** Whether a destination is out of reach, since when, and when it is tried again. */
export class Breaker {
  readonly #backoff: Backoff
  #since: Date | undefined
  #againAtMs = 0

  constructor({ delayMs, maxDelayMs }: BreakerPlan, random: () => number = Math.random) {
    this.#backoff = new Backoff(delayMs, maxDelayMs, random)
  }

  get isDown(): boolean {
    return this.#since !== undefined
  }

  /** How long to wait until the next try. */
  get waitMs(): number {
    return Math.max(0, this.#againAtMs - performance.now())
  }

  /** It is out of reach: since when, and in how many milliseconds it is tried again. */
  failed(): { readonly since: Date; readonly retryInMs: number } {
    this.#since ??= new Date()
    const retryInMs = this.#backoff.next()
    this.#againAtMs = performance.now() + retryInMs
    return { since: this.#since, retryInMs }
  }

  /** It can be reached, and has done nothing yet: the waits stay as long as they are. Returns as {@link answered}. */
  reached(): Date | undefined {
    const since = this.#since
    this.#since = undefined
    return since
  }

  /** It answers. Returns since when it had not; undefined: it always had. */
  answered(): Date | undefined {
    this.#backoff.reset()
    return this.reached()
  }
}
