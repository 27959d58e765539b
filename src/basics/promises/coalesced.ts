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
    this.#running ??= Promise.resolve().then(() => this.#all(work))
    return this.#running
  }

  async #all(work: () => Promise<void>): Promise<void> {
    try {
      while (this.#again) {
        this.#again = false
        await work()
      }
    } finally {
      // In the step in which the loop has ended: a call a step later would get a run that is over.
      this.#running = undefined
    }
  }
}
