import { DeliveredMessage } from '../../src/claim/delivered-message.ts'
import type { HandlerTransaction } from '../../src/handle/transaction/handler-transaction.ts'
import type { Message } from '../../src/message.ts'
import { Delivery, type DeliveryEnd } from '../../src/rx/delivery.ts'
import { claimedRow } from './rows/claimed-row.ts'

/** A delivery without a database that notes how it is settled. */
export class FakeDelivery extends Delivery<string> {
  readonly settlements: DeliveryEnd[]
  readonly #end: AbortController

  constructor(payload: string, settlements: DeliveryEnd[], end: AbortController) {
    const row = claimedRow({ id: '1', payload: JSON.stringify(payload) })
    const message = new DeliveredMessage('fake', row).handed as Message<string>
    // Nothing in these tests runs a statement.
    const tx = {} as HandlerTransaction
    super(message, { tx, signal: end.signal }, (settled) => {
      if (settlements.length > 0 || end.signal.aborted) return false
      settlements.push(settled)
      return true
    })
    this.settlements = settlements
    this.#end = end
  }

  /** As the pipeline does when its time is up. */
  abort(reason: Error): void {
    this.#end.abort(reason)
  }
}

export function deliveryOf(payload: string): FakeDelivery {
  return new FakeDelivery(payload, [], new AbortController())
}
