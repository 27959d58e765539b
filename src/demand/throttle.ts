import { pause } from '../basics/time/pause.ts'

/** Lets claims leave one after another, with a least time between two of them. */
export class Throttle {
  readonly #leastMs: number
  #nextAtMs = 0

  constructor(leastMs: number) {
    this.#leastMs = leastMs
  }

  /**
   * Resolves when the next claim may leave, or when the signal aborts. There is no line, so a runner that no longer
   * wants to claim delays no other.
   */
  async turn(signal: AbortSignal, wants: () => boolean): Promise<void> {
    while (!signal.aborted && wants()) {
      const nowMs = performance.now()
      if (nowMs >= this.#nextAtMs) {
        this.#nextAtMs = nowMs + this.#leastMs
        return
      }
      await pause(this.#nextAtMs - nowMs, signal)
    }
  }
}
