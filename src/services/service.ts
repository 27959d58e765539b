/** Work that a worker process does in the background. Any number of processes may do the same work side by side. */
export interface Service<Result = unknown> {
  /** From now on one pass after another, each `intervalMs` after the start of the one before, or when that has ended. */
  start(): void
  /** Begins no other pass, and resolves when the one that runs has ended. */
  stop(): Promise<void>
  /** One pass, whether it has been started or not. */
  runOnce(): Promise<Result>
}

/**
 * The clockwork of a service. A pass that fails is followed by the next one: services work on a connection that is
 * restored, and reported, by itself.
 */
export class Interval {
  readonly #intervalMs: number
  readonly #pass: () => Promise<unknown>
  #timer: NodeJS.Timeout | undefined
  #running: Promise<unknown> = Promise.resolve()
  #stopped = false

  constructor(intervalMs: number, pass: () => Promise<unknown>) {
    this.#intervalMs = intervalMs
    this.#pass = pass
  }

  start(): void {
    this.#stopped = false
    this.#next(this.#intervalMs)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#running
  }

  #next(afterMs: number): void {
    if (this.#stopped) return
    this.#timer = setTimeout(() => {
      this.#running = this.#run()
    }, afterMs)
  }

  async #run(): Promise<void> {
    const startedAt = performance.now()
    await this.#pass().catch(() => undefined)
    this.#next(Math.max(0, this.#intervalMs - (performance.now() - startedAt)))
  }
}
