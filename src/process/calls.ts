import { stopped } from '../errors.ts'

/** The calls of a Sluice that use its connections, until it stops. Those that have begun end as if it went on. */
export class Calls {
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

  /** No call begins any more. Resolves when those that have begun have ended. */
  async end(): Promise<void> {
    this.#over = true
    await Promise.allSettled(this.#running)
  }
}
