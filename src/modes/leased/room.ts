import { untilAborted } from '../../basics/until-aborted.ts'

/** Room for the messages that a leased pipeline may have in flight. It comes back message by message. */
export class Room {
  #size: number
  #taken = 0
  #changed: PromiseWithResolvers<void> | undefined

  constructor(size: number) {
    this.#size = size
  }

  /**
   * Reserves free places for a claim, `most` at most, as soon as there is one, or none if the signal aborts before. While
   * the claim is on its way others become free, so under load claims grow by themselves.
   */
  async reserve(most: number, signal: AbortSignal): Promise<number> {
    while (!signal.aborted && this.#taken >= this.#size) await untilAborted(this.#nextChange(), signal)
    if (signal.aborted) return 0
    const reserved = Math.min(most, this.#size - this.#taken)
    this.#taken += reserved
    return reserved
  }

  /** Resolves when none is taken. Returns whether any was. */
  async empty(): Promise<boolean> {
    const waits = this.#taken > 0
    while (this.#taken > 0) await this.#nextChange()
    return waits
  }

  giveBack(places: number): void {
    this.#taken -= places
    this.#tellChanged()
  }

  /** If more is taken than the new size, nothing is reserved until that has come back. */
  resize(size: number): void {
    this.#size = size
    this.#tellChanged()
  }

  #tellChanged(): void {
    this.#changed?.resolve()
    this.#changed = undefined
  }

  #nextChange(): Promise<void> {
    this.#changed ??= Promise.withResolvers()
    return this.#changed.promise
  }
}
