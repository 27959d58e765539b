/**
 * When the time of a property is up, fast-check leaves the sequence that runs, and on a slow machine that fails on what the test
 * has ended meanwhile: an error that nobody handles. A test that disposes of this before it ends waits for the sequence.
 */
export class LastSequence implements AsyncDisposable {
  #running: Promise<void> = Promise.resolve()

  of<Given extends readonly unknown[]>(run: (...given: Given) => Promise<void>): (...given: Given) => Promise<void> {
    return (...given) => {
      const running = run(...given)
      this.#running = running.catch(() => undefined)
      return running
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#running
  }
}
