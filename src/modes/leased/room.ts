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
   * Reserves room for a claim, for `most` messages at most, as soon as there is some; undefined if the signal aborts before.
   * While the claim is on its way more becomes free, so under load claims grow by themselves.
   */
  async reserve(most: number, signal: AbortSignal): Promise<Reservation | undefined> {
    while (!signal.aborted && this.#taken >= this.#size) await untilAborted(this.#nextChange(), signal)
    if (signal.aborted) return undefined
    const reserved = Math.min(most, this.#size - this.#taken)
    this.#taken += reserved
    return new Reservation(this, reserved)
  }

  /** Resolves when none is taken. Returns whether any was. */
  async empty(): Promise<boolean> {
    const waits = this.#taken > 0
    while (this.#taken > 0) await this.#nextChange()
    return waits
  }

  giveBack(messages: number): void {
    this.#taken -= messages
    this.#announce()
  }

  /** If more is taken than the new size, nothing is reserved until that has come back. */
  resize(size: number): void {
    this.#size = size
    this.#announce()
  }

  #announce(): void {
    this.#changed?.resolve()
    this.#changed = undefined
  }

  #nextChange(): Promise<void> {
    this.#changed ??= Promise.withResolvers()
    return this.#changed.promise
  }
}

/** Room that is kept for what a claim finds. */
export class Reservation {
  readonly #room: Room
  readonly most: number
  #left: number

  constructor(room: Room, most: number) {
    this.#room = room
    this.most = most
    this.#left = most
  }

  /** So many messages were found: each gives its own room back when it ends. */
  use(messages: number): void {
    this.#left -= messages
  }

  /** The claim is over: what it has not used is free. */
  release(): void {
    if (this.#left > 0) this.#room.giveBack(this.#left)
    this.#left = 0
  }
}
