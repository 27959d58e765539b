import { percentile } from '../statistics.ts'

/**
 * How long it takes from the end of a handler to its commit. Contestants tell how many messages a commit has settled, and
 * not which: the n-th handler that has ended is taken to be the n-th message that is settled.
 */
export class Ended {
  readonly #endedMs: number[] = []
  readonly #waits: number[] = []
  #next = 0

  /** A handler has ended. */
  add(): void {
    this.#endedMs.push(performance.now())
  }

  /** So many messages have been committed. */
  committed(messages: number): void {
    const now = performance.now()
    for (const endedMs of this.#endedMs.slice(this.#next, this.#next + messages)) this.#waits.push(now - endedMs)
    this.#next += messages
  }

  /** Forgets what has been committed so far: the clock starts. */
  start(): void {
    this.#waits.length = 0
  }

  get metrics(): { readonly settleP50: number; readonly settleP99: number; readonly settleMost: number } {
    const most = this.#waits.reduce((found, wait) => Math.max(found, wait), 0)
    return { settleP50: percentile(this.#waits, 50), settleP99: percentile(this.#waits, 99), settleMost: most }
  }
}
