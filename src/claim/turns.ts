import type { QueueScan } from '../table/claim/queue-scan.ts'
import type { MessageKind } from './claim-answer.ts'

/** Messages with and without ordering keys take turns. */
export class Turns {
  #slotsFirst = false
  /** The kinds of messages that the last scan of the queue did not find, not even in flight. */
  readonly #missing = new Set<MessageKind>()
  /** Its turn is the claim with which it reaches {@link PASS_OVER}. */
  #passedOver = 0

  /**
   * The kinds of messages to ask for, in order. The kind that has its turn comes first. Asking for a missing kind costs a round trip,
   * so it has only every eighth turn, until it is found again.
   */
  order(): readonly MessageKind[] {
    const [turn, other] = this.#turn
    return this.#missing.has(turn) && this.#passedOver < PASS_OVER ? [other, turn] : [turn, other]
  }

  /** The same for a new claim, which counts as a turn. */
  next(): readonly MessageKind[] {
    if (this.#missing.has(this.#turn[0])) this.#passedOver = (this.#passedOver % PASS_OVER) + 1
    return this.order()
  }

  /** A claim of one kind has ended. While claims walk a long run, the other kind has every other turn. */
  took(kind: MessageKind, some: boolean, partial: boolean): void {
    if (partial) this.#slotsFirst = false
    if (!some) return
    this.#slotsFirst = kind === 'unkeyed'
    this.#missing.delete(kind)
  }

  learn({ unkeyed, slots }: Pick<QueueScan, 'unkeyed' | 'slots'>): void {
    this.#missing.clear()
    if (!unkeyed) this.#missing.add('unkeyed')
    if (slots.length === 0) this.#missing.add('keyed')
  }

  get #turn(): readonly [MessageKind, MessageKind] {
    return this.#slotsFirst ? ['keyed', 'unkeyed'] : ['unkeyed', 'keyed']
  }
}

const PASS_OVER = 8
