import { allWordsOf } from '../basics/errors/all-words-of.ts'
import { ignoreRejection } from '../basics/promises/ignore-rejection.ts'
import { describe } from '../errors.ts'
import type { OutgoingMessage, Verdict } from './destination.ts'

/** Where in its destination a message goes: a subject, a routing key, a topic. */
export class Target {
  readonly #option: string
  readonly #target: string | ((message: OutgoingMessage) => string)
  readonly #wrong: (target: unknown) => string | undefined
  readonly #known = new WeakMap<OutgoingMessage, string>()

  /**
   * @param option that gives it, as in `nats.subject`
   * @param wrong returns what is expected instead of a target that cannot be one
   */
  constructor(
    option: string,
    target: string | ((message: OutgoingMessage) => string),
    wrong: (target: unknown) => string | undefined,
  ) {
    this.#option = option
    this.#target = target
    this.#wrong = wrong
  }

  /** Why nothing can be published where this message goes. A target that is the same for all was checked with the options. */
  refusalOf(outgoing: OutgoingMessage): string | undefined {
    if (typeof this.#target === 'string') return undefined
    const target = this.of(outgoing)
    const wanted = this.#wrong(target)
    return wanted === undefined ? undefined : `${this.#option}: expected ${wanted}, received ${describe(target)}`
  }

  /**
   * The verdict where this target takes nothing, because it is missing or closed to the login. If all messages go there, none
   * gets through before that has been changed: they wait, and count no attempt. If others go elsewhere, these do not wait.
   *
   * @param why with what must be changed
   */
  closed(outgoing: OutgoingMessage, why: unknown): Verdict {
    const error = this.named(outgoing, why)
    return typeof this.#target === 'string'
      ? { kind: 'unavailable', error, cause: 'settings' }
      : { kind: 'failed', error }
  }

  /** An error with the target, if it does not name it. */
  named(outgoing: OutgoingMessage, why: unknown): string {
    const words = allWordsOf(why)
    const target = describe(this.of(outgoing))
    return words.includes(target) ? words : `${this.#option.replace(/^.*\./, '')} ${target}: ${words}`
  }

  /** A function of the user's is asked once for a message: a destination needs its answer to check it and to publish. */
  of(outgoing: OutgoingMessage): string {
    const target = this.#target
    if (typeof target === 'string') return target
    const known = this.#known.get(outgoing)
    if (known !== undefined) return known
    const made = target(outgoing)
    ignoreRejection(made)
    this.#known.set(outgoing, made)
    return made
  }
}
