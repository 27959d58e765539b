import { startTimer } from '../basics/time/start-timer.ts'

/** How long an adapter may take to see that the time of its batch is up. */
export class Grace {
  /** Resolves a second after the signal has aborted. */
  readonly over: Promise<undefined>
  readonly #signal: AbortSignal
  readonly #abort: () => void
  #timer: NodeJS.Timeout | undefined

  /** One for all calls of a batch: to listen to a signal takes as long as to publish some messages. */
  constructor(signal: AbortSignal) {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    this.over = promise
    this.#signal = signal
    this.#abort = () => {
      this.#timer = startTimer(() => resolve(undefined), GRACE_MS)
    }
    signal.addEventListener('abort', this.#abort, { once: true })
    if (signal.aborted) this.#abort()
  }

  /** Nothing waits any more. */
  end(): void {
    clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#abort)
  }
}

const GRACE_MS = 1_000
