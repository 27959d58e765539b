/** Gets what was waited for: one of the two is called, once, and later. */
export interface Heard<T> {
  answered(result: T): void
  failed(error: unknown): void
}

/** What is heard, as a promise. */
export class HeardLater<T> implements Heard<T> {
  readonly #result = Promise.withResolvers<T>()

  get result(): Promise<T> {
    return this.#result.promise
  }

  answered(result: T): void {
    this.#result.resolve(result)
  }

  failed(error: unknown): void {
    this.#result.reject(error)
  }
}
