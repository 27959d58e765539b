/** Counts what has begun and not ended, and says when nothing is left. */
export class UnderWay {
  #count = 0
  #ended: PromiseWithResolvers<void> | undefined

  get any(): boolean {
    return this.#count > 0
  }

  begun(): void {
    this.#count += 1
  }

  over(): void {
    this.#count -= 1
    if (this.#count > 0) return
    this.#ended?.resolve()
    this.#ended = undefined
  }

  /** Resolves when all of it is over. */
  async end(): Promise<void> {
    if (this.#count === 0) return
    this.#ended ??= Promise.withResolvers<void>()
    await this.#ended.promise
  }
}
