import { stopped } from '../errors.ts'

/** The calls of a Sluice that use its connections, until it stops. Those that have begun end as if it went on. */
export class Calls {
  readonly #loading = new Set<Promise<unknown>>()
  readonly #running = new Set<Promise<unknown>>()
  #over = false
  /** Whether a call is being made whose loading had begun before the end. */
  #admits = false

  /** Whether no call begins any more. */
  get over(): boolean {
    return this.#over
  }

  /** @throws SluiceError STOPPED, and what the work throws */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#over && !this.#admits) throw stopped('sluice')
    const running = work()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  /**
   * Loads what answers a call, and calls it. An end in the meantime does not refuse what the call runs at once.
   *
   * @throws what the two throw
   */
  async load<Loaded, T>(load: () => Promise<Loaded>, call: (loaded: Loaded) => Promise<T>): Promise<T> {
    const inTime = !this.#over
    // In an object: the call is not awaited as a part of the loading.
    const loading = load().then((loaded) => ({ answer: this.#begin(inTime, () => call(loaded)) }))
    this.#loading.add(loading)
    try {
      const { answer } = await loading
      return await answer
    } finally {
      this.#loading.delete(loading)
    }
  }

  #begin<T>(inTime: boolean, call: () => Promise<T>): Promise<T> {
    this.#admits = inTime
    try {
      return call()
    } finally {
      this.#admits = false
    }
  }

  /** No call begins any more, but for those that are loading. Resolves when those that have begun have ended. */
  async end(): Promise<void> {
    this.#over = true
    await Promise.allSettled(this.#loading)
    await Promise.allSettled(this.#running)
  }
}
