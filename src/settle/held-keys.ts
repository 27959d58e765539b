import type { ClaimedRow } from '../table/claim/claim.ts'
import { WHOLE_QUEUE_SLOT } from '../table/claim/claim-ordered.ts'
import type { HeldKey } from '../table/settle/settle.ts'

/** The ordering keys that wait for messages of a settlement. A queue that is ordered as a whole has one. */
export class HeldKeys {
  readonly #held = new Map<string, HeldKey>()

  get keys(): readonly HeldKey[] {
    return [...this.#held.values()]
  }

  /** The key waits for the last of its messages, so that all of them are due when it goes on with the first. */
  hold({ id, slot, orderingKey }: Pick<ClaimedRow, 'id' | 'slot' | 'orderingKey'>, untilUs: number): void {
    const name = orderingKey ?? ''
    const held = this.#held.get(name)
    if (held === undefined) {
      this.#held.set(name, { slot: slot ?? WHOLE_QUEUE_SLOT, orderingKey: name, messageId: id, untilUs })
    } else if (held.untilUs < untilUs) {
      this.#held.set(name, { ...held, untilUs })
    }
  }
}
