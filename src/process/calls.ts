import { stopped } from '../errors.ts'

/** The calls of a Sluice that use its connections, until it stops. Those that have begun end as if it went on. */
export class Calls {
  readonly #loading = new Set<Promise<unknown>>()
  readonly #running = new Set<Promise<unknown>>()
  #over = false

  /** Whether no call begins any more. */
  get over(): boolean {
    return this.#over
  }

  /** @throws SluiceError STOPPED, and what the work throws */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#over) throw stopped('sluice')
    const running = work()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  /** Loads what answers a call, and calls it. A call for which that takes a moment is not refused by an end in that moment. */
  async load<T>(work: () => Promise<T>): Promise<T> {
    const loading = work()
    this.#loading.add(loading)
    try {
      return await loading
    } finally {
      this.#loading.delete(loading)
    }
  }

  /** No call begins any more. Resolves when those that have begun have ended. */
  async end(): Promise<void> {
    await Promise.allSettled(this.#loading)
    this.#over = true
    await Promise.allSettled(this.#running)
  }
}
