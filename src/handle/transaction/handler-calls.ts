import { UnderWay } from './under-way.ts'
import { WatchedPromise } from './watched-promise.ts'

/**
 * What a handler has called and may not await. It counts as if it had been awaited: the handler is over when all of it is,
 * and what failed is the handler's failure, unless the handler has dealt with it. Without this the rejection of a promise that
 * nobody awaits would end the process.
 */
export class HandlerCalls {
  readonly #underWay = new UnderWay()
  #returned = false
  /** While the handler was at work: it may have dealt with them. */
  #failed: readonly { readonly given: WatchedPromise<unknown>; readonly error: unknown }[] | undefined
  #unawaited: unknown

  /** Returns the promise for the handler. */
  watch<T>(work: Promise<T>): Promise<T> {
    this.#underWay.begun()
    // One after another: with two calls of then() on one promise, the stack of an error would end there.
    const watched = work.then(
      (result) => {
        this.#underWay.over()
        return result
      },
      (error: unknown) => {
        if (this.#returned) this.#unawaited ??= error
        else this.#failed = [...(this.#failed ?? []), { given, error }]
        this.#underWay.over()
        given.ignoreRejection()
        throw error
      },
    )
    const given = WatchedPromise.of(watched)
    return given
  }

  /** Some of it is under way. */
  get any(): boolean {
    return this.#underWay.any
  }

  /** Some of it is under way, or has failed. */
  get unfinished(): boolean {
    return this.any || this.#failed !== undefined
  }

  /** The handler has returned: it can deal with no failure any more. */
  returned(): void {
    this.#returned = true
  }

  /** Resolves when nothing is under way. */
  async end(): Promise<void> {
    await this.#underWay.end()
  }

  /** @throws what has failed and the handler has not dealt with */
  assertDealtWith(): void {
    const error = this.#unawaited ?? this.#failed?.find(({ given }) => !given.taken)?.error
    if (error !== undefined) throw error
  }
}
