import type { Go } from './worker-orders.ts'

/** Handlers that wait until they are told to go on. Whoever comes after the word does not wait. */
export class HeldHandlers {
  readonly #going: Go[]
  #changed = Promise.withResolvers<void>()
  #all = false

  constructor(going: readonly Go[]) {
    this.#going = [...going]
  }

  goes(id: string, attempt: number): boolean {
    return this.#all || this.#going.some((go) => go.id === id && (go.attempt ?? attempt) === attempt)
  }

  async untilGo(id: string, attempt: number): Promise<void> {
    while (!this.goes(id, attempt)) await this.#changed.promise
  }

  go(going: readonly Go[]): void {
    this.#going.push(...going)
    this.#change()
  }

  /** The worker ends. */
  goAll(): void {
    this.#all = true
    this.#change()
  }

  #change(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}
