/** Room for the messages that a leased pipeline may have in hand. It comes back message by message. */
export class Places {
  readonly #all: number
  /** So many must be free before a claim is worth its round trips, or all of them. */
  readonly #enough: number
  #taken = 0
  #changed = Promise.withResolvers<void>()

  constructor(all: number, enough: number) {
    this.#all = all
    this.#enough = Math.min(all, enough)
  }

  get taken(): number {
    return this.#taken
  }

  /** Resolves with how many are free when there are enough, or with zero if the signal aborts before. */
  async free(signal: AbortSignal): Promise<number> {
    const aborted = Promise.withResolvers<void>()
    const onAbort = () => aborted.resolve()
    signal.addEventListener('abort', onAbort)
    try {
      while (!signal.aborted && this.#all - this.#taken < this.#enough)
        await Promise.race([this.#changed.promise, aborted.promise])
      return signal.aborted ? 0 : this.#all - this.#taken
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Resolves when none is taken. Returns whether any was. */
  async empty(): Promise<boolean> {
    const waits = this.#taken > 0
    while (this.#taken > 0) await this.#changed.promise
    return waits
  }

  take(count: number): void {
    this.#taken += count
  }

  give(count: number): void {
    this.#taken -= count
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}
