/** Lets a few in at a time; the others wait in order. */
export class Gate {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(most: number) {
    this.#free = most
  }

  /** Resolves, when it may enter, with what lets the next one in: once, however often it is called. */
  async enter(): Promise<() => void> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    let inside = true
    return () => {
      if (inside) this.#leave()
      inside = false
    }
  }

  #leave(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free += 1
    else next()
  }
}
