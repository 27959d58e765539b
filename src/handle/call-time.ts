import { guardSignal } from './guard-signal.ts'

/** One handler's part of a batch's time. */
export class CallTime {
  readonly startedAtMs = performance.now()
  #startedAt = this.startedAtMs
  #endedAt: number | undefined
  #controller: AbortController | undefined

  /** Made when it is first asked for: most handlers never do. */
  get signal(): AbortSignal {
    return this.#control.signal
  }

  get isOver(): boolean {
    return this.#endedAt !== undefined
  }

  get tookMs(): number {
    return (this.#endedAt ?? performance.now()) - this.#startedAt
  }

  restart(): void {
    this.#startedAt = performance.now()
  }

  /** The handler is over. What the server takes for its end is not its time. Returns whether it was not over before. */
  end(): boolean {
    if (this.#endedAt !== undefined) return false
    this.#endedAt = performance.now()
    return true
  }

  get endedAtMs(): number {
    return this.#endedAt ?? performance.now()
  }

  abort(reason: unknown): void {
    this.#control.abort(reason)
  }

  get #control(): AbortController {
    if (this.#controller !== undefined) return this.#controller
    this.#controller = new AbortController()
    guardSignal(this.#controller.signal)
    return this.#controller
  }
}
