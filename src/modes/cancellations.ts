/** Tells those who have messages of a queue in hand which of them are cancelled. */
export class Cancellations {
  readonly #hearers = new Map<string, Set<(id: string) => unknown>>()

  /** @returns ends it */
  hear(queue: string, hearer: (id: string) => unknown): () => void {
    const hearers = this.#hearers.get(queue) ?? new Set()
    this.#hearers.set(queue, hearers)
    hearers.add(hearer)
    return () => {
      hearers.delete(hearer)
      if (hearers.size === 0 && this.#hearers.get(queue) === hearers) this.#hearers.delete(queue)
    }
  }

  cancelled(queue: string, id: string): void {
    for (const hearer of this.#hearers.get(queue) ?? []) hearer(id)
  }
}
