import type { Deferrable } from '../table/session/constraints.ts'

/**
 * Which constraints of a database a transaction may defer, as far as the connections to it know. An answer counts for
 * five seconds. One that was created since then is checked by COMMIT only.
 */
export class Constraints {
  #deferrable: Deferrable | undefined
  #askedAtMs = Number.NEGATIVE_INFINITY

  /** Undefined: not known. */
  get deferrable(): Deferrable | undefined {
    return this.#deferrable
  }

  /** The database has answered just now. */
  learned(deferrable: Deferrable): void {
    this.#deferrable = deferrable
    this.#askedAtMs = performance.now()
  }

  /** A handler may have created one: forget that there were none. */
  doubt(): void {
    if (this.#deferrable === 'none') this.#deferrable = undefined
    this.#askedAtMs = Number.NEGATIVE_INFINITY
  }

  /** Asks again if the last answer is too old. Until there is an answer, the last one counts. */
  refresh(ask: () => Promise<Deferrable>): void {
    if (performance.now() - this.#askedAtMs < GOOD_FOR_MS) return
    // Now, so that other connections do not ask too.
    this.#askedAtMs = performance.now()
    ask().then(
      (deferrable) => this.learned(deferrable),
      () => this.doubt(),
    )
  }
}

const GOOD_FOR_MS = 5_000
