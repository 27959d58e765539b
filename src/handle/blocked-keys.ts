import type { DeliveredMessage } from '../claim/delivered-message.ts'

/** The key whose messages are handled in order: its ordering key, or more than that. Undefined: nothing. */
export type KeyOf = (message: DeliveredMessage) => string | number | undefined

/** The keys of a batch whose later messages must wait, because one of theirs is to be tried again. */
export class BlockedKeys {
  readonly #keyOf: KeyOf
  readonly #keys = new Set<string | number>()

  constructor(keyOf: KeyOf) {
    this.#keyOf = keyOf
  }

  add(message: DeliveredMessage): void {
    const key = this.#keyOf(message)
    if (key !== undefined) this.#keys.add(key)
  }

  has(message: DeliveredMessage): boolean {
    const key = this.#keyOf(message)
    return key !== undefined && this.#keys.has(key)
  }
}
