/**
 * Runs work, one run at a time. However often it is asked for during a run, one more run follows: that one sees what
 * they were asked for.
 */
export class Coalesced {
  #running: Promise<void> | undefined
  #again = false

  /** Resolves when a run is over that began after this call. Rejects with the error of the run under way. */
  run(work: () => Promise<void>): Promise<void> {
    this.#again = true
    this.#running ??= this.#all(work).finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #all(work: () => Promise<void>): Promise<void> {
    while (this.#again) {
      this.#again = false
      await work()
    }
  }
}
