import { Coalesced } from '../basics/promises/coalesced.ts'
import type { CancelRequest } from '../table/worker/cancel-requests.ts'

/**
 * Tells those who have messages in flight which of them are to be cancelled. Only a request in the database counts: anybody
 * may notify, so a notification is no more than the advice to look.
 */
export class Cancellations {
  readonly #read: () => Promise<readonly CancelRequest[]>
  readonly #hearers = new Map<string, Set<(request: CancelRequest) => unknown>>()
  readonly #looking = new Coalesced()

  /** @param read the requests for what this process has in flight */
  constructor(read: () => Promise<readonly CancelRequest[]>) {
    this.#read = read
  }

  /** @returns ends it */
  hear(queue: string, hearer: (request: CancelRequest) => unknown): () => void {
    const hearers = this.#hearers.get(queue) ?? new Set()
    this.#hearers.set(queue, hearers)
    hearers.add(hearer)
    return () => {
      hearers.delete(hearer)
      if (hearers.size === 0 && this.#hearers.get(queue) === hearers) this.#hearers.delete(queue)
    }
  }

  /**
   * Looks once, if this process has messages of the queue, or of any queue, in flight. If that fails, the poll finds them.
   */
  async look(queue?: string): Promise<void> {
    if (queue === undefined ? this.#hearers.size === 0 : !this.#hearers.has(queue)) return
    await this.#looking.run(async () => this.found(await this.#read())).catch(() => undefined)
  }

  /** The same requests are found again for as long as their batches are in flight. */
  found(requests: readonly CancelRequest[]): void {
    for (const request of requests) for (const hearer of this.#hearers.get(request.queue) ?? []) hearer(request)
  }
}
