/**
 * A promise that knows whether anybody has taken an interest in it: by `await`, `then`, `catch`, or as one of
 * `Promise.all`. If none has, its rejection is ours to deal with, and must not end the process:
 * {@link ignoreRejection}.
 */
export class WatchedPromise<T> extends Promise<T> {
  /** What is made from it is an ordinary promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  static of<Value>(work: Promise<Value>): WatchedPromise<Value> {
    return new WatchedPromise<Value>((resolve, reject) => work.then(resolve, reject))
  }

  /** Calls back when a promise is fulfilled, and takes no interest in it. */
  static whenFulfilled(promise: Promise<unknown>, callback: () => void): void {
    Promise.prototype.then.call(promise, callback, () => undefined)
  }

  #taken = false

  /**
   * Its rejection does not end the process, and is no interest in it. Not to be called before the error is made: its
   * stack shows who awaits the promise only if nothing else does.
   */
  ignoreRejection(): void {
    super.then(undefined, () => undefined)
  }

  get taken(): boolean {
    return this.#taken
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise has one, and `await` calls it
  override then<Fulfilled = T, Rejected = never>(
    onFulfilled?: ((value: T) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    this.#taken = true
    return super.then(onFulfilled, onRejected)
  }
}
