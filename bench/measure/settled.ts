/** Counts settled messages, and tells when there are so many. */
export class Settled {
  #count = 0
  #awaited: { readonly count: number; readonly reached: () => void } | undefined

  get count(): number {
    return this.#count
  }

  add(messages: number): void {
    this.#count += messages
    if (this.#awaited !== undefined && this.#count >= this.#awaited.count) this.#awaited.reached()
  }

  /** One wait at a time. */
  async reach(count: number): Promise<void> {
    if (this.#count >= count) return
    await new Promise<void>((reached) => {
      this.#awaited = { count, reached }
    })
  }
}
