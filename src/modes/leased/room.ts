/** Room for the messages that a leased pipeline may have in hand. It comes back message by message. */
export class Room {
  readonly #size: number
  readonly #batchSize: number
  #taken = 0
  #claims = 0
  #changed: PromiseWithResolvers<void> | undefined

  /** @param batchSize the most messages of one claim */
  constructor(size: number, batchSize: number) {
    this.#size = size
    this.#batchSize = batchSize
  }

  /**
   * Reserves free places for a claim, `most` at most, as soon as there is one, or none if the signal aborts before. While
   * the claim is on its way, and while the handlers of what it has taken begin, others become free, so under load claims grow
   * by themselves. Until then another one leaves only with room for a whole batch: several small ones cost more than one.
   */
  async reserve(most: number, signal: AbortSignal): Promise<number> {
    const aborted = Promise.withResolvers<void>()
    const onAbort = () => aborted.resolve()
    signal.addEventListener('abort', onAbort)
    try {
      while (!signal.aborted && !this.#admits) await Promise.race([this.#nextChange(), aborted.promise])
      if (signal.aborted) return 0
      const reserved = Math.min(most, this.#size - this.#taken)
      this.#claims += 1
      this.#taken += reserved
      return reserved
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** The handlers of what the claim has taken have begun, or it has taken nothing. */
  begun(): void {
    this.#claims -= 1
    this.giveBack(0)
  }

  /** Resolves when none is taken. Returns whether any was. */
  async empty(): Promise<boolean> {
    const waits = this.#taken > 0
    while (this.#taken > 0) await this.#nextChange()
    return waits
  }

  giveBack(places: number): void {
    this.#taken -= places
    this.#changed?.resolve()
    this.#changed = undefined
  }

  get #admits(): boolean {
    const least = this.#claims === 0 ? 1 : this.#batchSize
    return this.#size - this.#taken >= least
  }

  #nextChange(): Promise<void> {
    this.#changed ??= Promise.withResolvers()
    return this.#changed.promise
  }
}
