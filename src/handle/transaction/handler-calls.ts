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
    const given = WatchedPromise.of(work)
    work.then(
      () => this.#underWay.over(),
      (error: unknown) => {
        if (this.#returned) this.#unawaited ??= error
        else this.#failed = [...(this.#failed ?? []), { given, error }]
        this.#underWay.over()
      },
    )
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
