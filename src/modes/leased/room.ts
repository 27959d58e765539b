import { untilAborted } from '../../basics/promises/until-aborted.ts'

/**
 * Room for the messages whose handlers a leased pipeline may run at a time. It comes back message by message, when the handler
 * has answered: the settlement does not keep the next message waiting, until as many wait for theirs as may run.
 */
export class Room {
  #size: number
  /** By claims on their way, and by messages whose handlers run. */
  #taken = 0
  /** Their handlers have answered. */
  #settling = 0
  #changed: PromiseWithResolvers<void> | undefined

  constructor(size: number) {
    this.#size = size
  }

  get size(): number {
    return this.#size
  }

  /**
   * Reserves room for a claim, for `most` messages at most, as soon as there is some; undefined if the signal aborts before.
   * While the claim is on its way more becomes free, so under load claims grow by themselves.
   */
  async reserve(most: number, signal: AbortSignal): Promise<Reservation | undefined> {
    while (!signal.aborted && this.#free <= 0) await untilAborted(this.#nextChange(), signal)
    if (signal.aborted) return undefined
    const reserved = Math.min(most, this.#free)
    this.#taken += reserved
    return new Reservation(this, reserved)
  }

  /** Resolves when none is taken, and all are settled. Returns whether any was not. */
  async empty(): Promise<boolean> {
    const waits = this.#holds > 0
    while (this.#holds > 0) await this.#nextChange()
    return waits
  }

  /** The handler of a message has answered, or is not called. */
  answered(): void {
    this.#taken -= 1
    this.#settling += 1
    this.#announce()
  }

  /** Such a message is settled, or lost. */
  settled(): void {
    this.#settling -= 1
    this.#announce()
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

  get #holds(): number {
    return this.#taken + this.#settling
  }

  get #free(): number {
    return Math.min(this.#size - this.#taken, 2 * this.#size - this.#holds)
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

  /** So many messages were found: each gives its own room back. */
  use(messages: number): void {
    this.#left -= messages
  }

  /** The claim is over: what it has not used is free. */
  release(): void {
    if (this.#left > 0) this.#room.giveBack(this.#left)
    this.#left = 0
  }
}
