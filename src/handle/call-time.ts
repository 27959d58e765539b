/** One handler's part of a batch's time. */
export class CallTime {
  readonly startedAtMs = performance.now()
  #startedAt = this.startedAtMs
  #endedAt: number | undefined
  #controller: AbortController | undefined

  /** Made when it is first asked for: most handlers never do. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    return this.#controller.signal
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
    this.#controller ??= new AbortController()
    this.#controller.abort(reason)
  }
}
