/**
 * Waits that grow from `firstMs` twofold to `mostMs`, each drawn between half and all of its step, so that processes
 * that failed together do not come back together ("equal jitter": Brooker, Exponential Backoff And Jitter, 2015).
 */
export class Backoff {
  readonly #firstMs: number
  readonly #mostMs: number
  readonly #random: () => number
  #failures = 0

  constructor(firstMs: number, mostMs: number, random: () => number = Math.random) {
    this.#firstMs = firstMs
    this.#mostMs = mostMs
    this.#random = random
  }

  /** The next wait, in whole milliseconds. */
  next(): number {
    const step = Math.min(this.#mostMs, this.#firstMs * 2 ** this.#failures)
    this.#failures = Math.min(this.#failures + 1, 30)
    return Math.round(step * (0.5 + this.#random() / 2))
  }

  reset(): void {
    this.#failures = 0
  }
}
