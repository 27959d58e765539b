import { startTimer } from '../basics/time/start-timer.ts'

/**
 * The due times of messages that this process retries. It settled them, so it knows the times before any poll. Without
 * these, a runner that found nothing waits for the timer of another claim, or for the next sweep: 0.6 s on a busy
 * machine for a retry after 30 ms.
 */
export class DueTimes {
  readonly #onDue: () => void
  /** By the step in which they end. */
  readonly #timers = new Map<number, NodeJS.Timeout>()

  constructor(onDue: () => void) {
    this.#onDue = onDue
  }

  /** Messages that are due together, or nearly so, have one timer. */
  add(inMs: number): void {
    if (inMs <= 0) this.#onDue()
    if (inMs <= 0 || inMs > LONGEST_MS) return
    const now = performance.now()
    const step = Math.ceil((now + inMs) / STEP_MS)
    if (this.#timers.has(step)) return
    const due = () => {
      this.#timers.delete(step)
      this.#onDue()
    }
    // A millisecond more: a timer may end a little too early.
    this.#timers.set(step, startTimer(due, step * STEP_MS - now + 1).unref())
  }

  clear(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
  }
}

const STEP_MS = 5
/** The longest poll interval: polls find messages that are due later. */
const LONGEST_MS = 60_000
