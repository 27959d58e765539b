/** Ends a run of handlers of which nothing can come any more: the part of an AbortSignal that it needs. */
export interface Ending {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/**
 * One that ends once and has one listener. An AbortSignal for each message would be much of what its handling costs: it has a
 * table of listeners, which the garbage collector visits.
 */
export class SingleEnding implements Ending {
  #aborted = false
  #reason: unknown
  #listener: (() => void) | undefined

  get aborted(): boolean {
    return this.#aborted
  }

  get reason(): unknown {
    return this.#reason
  }

  abort(reason: unknown): void {
    if (this.#aborted) return
    this.#aborted = true
    this.#reason = reason
    this.#listener?.()
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listener = listener
  }

  removeEventListener(): void {
    this.#listener = undefined
  }
}
