import type { ClaimedRow } from '../table/claim/claim.ts'

/**
 * The most messages that a claim takes of one slot of keys.
 *
 * Most pipelines handle the messages of a batch one after another. Their claims fill it from as few slots as they can, because
 * a slot costs as much as four messages. A relay publishes keys side by side, and the messages of a key one after another. Its claims
 * take a few messages of each of many slots, and leave as many slots to each other batch in flight.
 *
 * What a process knows of the slots is up to a minute old, and most of them may be empty by then. So a claim that was not full,
 * though a slot had more, doubles the share of the next claims, and a full one halves it.
 */
export class SlotShare {
  readonly #mostSlots: number
  #times = 1

  /** @param mostSlots from how many slots a claim takes, if so many have messages */
  constructor(mostSlots: number) {
    this.#mostSlots = mostSlots
  }

  /**
   * @param limit the most messages of the claim
   * @param slots how many slots have messages, as far as known
   * @param inFlight how many batches share the slots
   */
  of(limit: number, slots: number, inFlight: number): number {
    const own = Math.min(this.#mostSlots, Math.max(1, Math.floor(slots / inFlight)))
    return Math.min(limit, Math.ceil(limit / own) * this.#times)
  }

  /** A claim has taken these. Returns whether it was not full although a slot may have more. */
  took(rows: readonly Pick<ClaimedRow, 'slot'>[], limit: number, share: number): boolean {
    if (rows.length >= limit) {
      this.#times = Math.max(1, this.#times / 2)
      return false
    }
    const hasMore = share < limit && mostOfSlot(rows) >= share
    if (hasMore) this.#times *= 2
    return hasMore
  }
}

function mostOfSlot(rows: readonly Pick<ClaimedRow, 'slot'>[]): number {
  const counts = new Map<number | null, number>()
  for (const { slot } of rows) counts.set(slot, (counts.get(slot) ?? 0) + 1)
  return Math.max(0, ...counts.values())
}
