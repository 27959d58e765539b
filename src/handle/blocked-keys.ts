import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { isOrdered, type PipelinePlan } from '../plan/options.ts'

/** The keys of a batch whose later messages must wait, because one of theirs is to be tried again. */
export class BlockedKeys {
  readonly #plan: PipelinePlan
  readonly #keys = new Set<string>()

  constructor(plan: PipelinePlan) {
    this.#plan = plan
  }

  add(message: DeliveredMessage): void {
    const key = this.#keyOf(message)
    if (key !== undefined) this.#keys.add(key)
  }

  has(message: DeliveredMessage): boolean {
    const key = this.#keyOf(message)
    return key !== undefined && this.#keys.has(key)
  }

  /** All messages of a queue that is ordered as a whole have one. */
  #keyOf(message: DeliveredMessage): string | undefined {
    return message.orderingKey ?? (isOrdered(this.#plan) ? '' : undefined)
  }
}
