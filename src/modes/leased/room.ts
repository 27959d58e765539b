/** Room for the messages that a leased pipeline may have in hand. It comes back message by message. */
export class Room {
  readonly #size: number
  #taken = 0
  #changed = Promise.withResolvers<void>()

  constructor(size: number) {
    this.#size = size
  }

  /**
   * Resolves with the free places as soon as there is one, or with zero if the signal aborts before. While the claim for
   * them is on its way others become free, so under load claims grow by themselves.
   */
  async free(signal: AbortSignal): Promise<number> {
    const aborted = Promise.withResolvers<void>()
    const onAbort = () => aborted.resolve()
    signal.addEventListener('abort', onAbort)
    try {
      while (!signal.aborted && this.#taken >= this.#size) await Promise.race([this.#changed.promise, aborted.promise])
      return signal.aborted ? 0 : this.#size - this.#taken
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

  giveBack(): void {
    this.#taken -= 1
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}
