/** How many places are wanted, and those that run or sleep. */
export class Places {
  readonly #open = new Set<Promise<void>>()
  #wanted: number
  /** Those of the open ones that have not been told to leave. */
  #staying = 0

  constructor(wanted: number) {
    this.#wanted = wanted
  }

  want(wanted: number): void {
    this.#wanted = wanted
  }

  /** How many more there are than are wanted. Below zero: how many are missing. */
  get surplus(): number {
    return this.#staying - this.#wanted
  }

  get isSurplus(): boolean {
    return this.surplus > 0
  }

  /** As many as are wanted and not there. */
  open(begin: () => Promise<void>): void {
    while (this.#staying < this.#wanted) {
      this.#staying += 1
      const place: Promise<void> = begin().finally(() => this.#open.delete(place))
      this.#open.add(place)
    }
  }

  /** One of them ends. */
  leave(): void {
    this.#staying -= 1
  }

  /** Resolves when none runs or sleeps. */
  async ended(): Promise<void> {
    while (this.#open.size > 0) await Promise.all(this.#open)
  }
}
