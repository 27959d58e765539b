/** Does one thing after another, each after a delay of its own but never before the one in front of it. */
export class DelayLine {
  readonly #waiting: { readonly act: () => void; readonly at: number }[] = []

  run(act: () => void, delayMs: number): void {
    if (delayMs <= 0 && this.#waiting.length === 0) {
      act()
      return
    }
    const last = this.#waiting.at(-1)?.at ?? 0
    this.#waiting.push({ act, at: Math.max(performance.now() + delayMs, last) })
    if (this.#waiting.length === 1) this.#sleep()
  }

  #sleep(): void {
    const [first] = this.#waiting
    if (first !== undefined) setTimeout(() => this.#next(), Math.max(0, first.at - performance.now()))
  }

  #next(): void {
    this.#waiting.shift()?.act()
    this.#sleep()
  }
}
