import { startTimer } from '../basics/time/start-timer.ts'

/** Work that a worker process does in the background. Any number of processes may do the same work side by side. */
export interface Service<Result = unknown> {
  /**
   * Starts one pass after another, each `intervalMs` after the start of the one before, or later, when that has ended.
   */
  start(): void
  /** Begins no further pass, and resolves when the current one has ended. */
  stop(): Promise<void>
  /** Makes one pass, whether it has been started or not. */
  runOnce(): Promise<Result>
}

/**
 * Runs the passes of a service. A pass that fails is followed by the next one, because the connection is restored, and
 * reported, elsewhere.
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
    this.#timer = startTimer(() => {
      this.#running = this.#run()
    }, afterMs)
  }

  async #run(): Promise<void> {
    const startedAt = performance.now()
    await this.#pass().catch(() => undefined)
    this.#next(Math.max(0, this.#intervalMs - (performance.now() - startedAt)))
  }
}
