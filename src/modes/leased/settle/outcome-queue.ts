import { startTimer } from '../../../basics/time/start-timer.ts'
import type { LeasedOutcome } from './leased-outcome.ts'

/**
 * Outcomes that wait to be written. Those that the server has refused wait by themselves, each with a time of its own, so
 * that the others go on in batches.
 */
export class OutcomeQueue {
  readonly #onDue: () => void
  #fresh: LeasedOutcome[] = []
  /** Groups to write again now. A group that was refused contains at least one outcome that the server refuses. */
  readonly #apart: (readonly LeasedOutcome[])[] = []

  /** @param onDue a group is due that had to wait */
  constructor(onDue: () => void) {
    this.#onDue = onDue
  }

  get isEmpty(): boolean {
    return this.#fresh.length === 0 && this.#apart.length === 0
  }

  add(outcome: LeasedOutcome): void {
    this.#fresh.push(outcome)
  }

  /** They go before all others. */
  putBack(outcomes: readonly LeasedOutcome[]): void {
    this.#fresh = [...outcomes, ...this.#fresh]
  }

  /** One of them is refused: each half is tried at once, so the one is found among 500 by some 20 transactions. */
  split(outcomes: readonly LeasedOutcome[]): void {
    const half = Math.ceil(outcomes.length / 2)
    this.#apart.push(outcomes.slice(0, half), outcomes.slice(half))
  }

  /** They are due together, after some time. */
  later(outcomes: readonly LeasedOutcome[], afterMs: number): void {
    startTimer(() => {
      this.#apart.push(outcomes)
      this.#onDue()
    }, afterMs)
  }

  takeFresh(): readonly LeasedOutcome[] {
    return this.#fresh.splice(0, MOST)
  }

  takeApart(): readonly LeasedOutcome[] {
    return this.#apart.shift() ?? []
  }
}

/** The most outcomes in one transaction. */
const MOST = 500
