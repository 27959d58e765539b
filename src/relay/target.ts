import type { OutgoingMessage } from './destination.ts'

/** Where in its destination a message goes: a subject, a routing key, a topic. */
export class Target {
  /** It is the same for all messages, and was checked with the options. */
  readonly isFixed: boolean
  readonly #target: string | ((message: OutgoingMessage) => string)
  readonly #known = new WeakMap<OutgoingMessage, string>()

  constructor(target: string | ((message: OutgoingMessage) => string)) {
    this.isFixed = typeof target === 'string'
    this.#target = target
  }

  /** A function of the user's is asked once for a message: a destination needs its answer to check it and to publish. */
  of(outgoing: OutgoingMessage): string {
    const target = this.#target
    if (typeof target === 'string') return target
    const known = this.#known.get(outgoing)
    if (known !== undefined) return known
    const made = target(outgoing)
    this.#known.set(outgoing, made)
    return made
  }
}
