import { startTimer } from '../basics/start-timer.ts'

/**
 * When messages are due that this process has to try again. It has settled them, so it knows before any poll. Without that,
 * a runner that has found nothing waits for a timer that another claim has set, or for the next sweep: 0.6 s on a busy machine
 * for a retry after 30 ms.
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
/** The longest interval of polls, which find what is due later. */
const LONGEST_MS = 60_000
