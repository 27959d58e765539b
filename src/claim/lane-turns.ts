import type { Lanes } from '../table/lanes.ts'
import type { Lane } from './look.ts'

/** Messages with and without ordering keys take turns. */
export class LaneTurns {
  #slotsFirst = false
  /** Which kinds of messages the last look over the queue found none of, in anybody's hands either. */
  readonly #missing = new Set<Lane>()
  /** Its turn is the claim with which it reaches {@link PASS_OVER}. */
  #passedOver = 0

  /**
   * Which kinds of messages to ask for, the one whose turn it is first. To ask for what is not there costs a round trip,
   * so a kind that was missing has only every eighth turn, until it is found again.
   */
  order(): readonly Lane[] {
    const [turn, other] = this.#turn
    return this.#missing.has(turn) && this.#passedOver < PASS_OVER ? [other, turn] : [turn, other]
  }

  /** The same for a new claim, which counts as a turn. */
  next(): readonly Lane[] {
    if (this.#missing.has(this.#turn[0])) this.#passedOver = (this.#passedOver % PASS_OVER) + 1
    return this.order()
  }

  /** A claim of one kind has ended. While a long run is walked claim by claim, the other has every other turn. */
  took(lane: Lane, some: boolean, cut: boolean): void {
    if (cut) this.#slotsFirst = false
    if (!some) return
    this.#slotsFirst = lane === 'unkeyed'
    this.#missing.delete(lane)
  }

  learn({ unkeyed, slots }: Pick<Lanes, 'unkeyed' | 'slots'>): void {
    this.#missing.clear()
    if (!unkeyed) this.#missing.add('unkeyed')
    if (slots.length === 0) this.#missing.add('slots')
  }

  get #turn(): readonly [Lane, Lane] {
    return this.#slotsFirst ? ['slots', 'unkeyed'] : ['unkeyed', 'slots']
  }
}

const PASS_OVER = 8
