/**
 * When to sweep: look at a queue from the bottom, without floors. A sweep walks the dead rows that floors avoid, so
 * it may cost `share` of the time at most: after one that took 2 ms, the next comes after 60 ms at the earliest.
 */
export class SweepClock {
  readonly #now: () => number
  #nextAt = Number.NEGATIVE_INFINITY

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Milliseconds until a sweep may run; zero: now. */
  waitMs(): number {
    return Math.max(0, this.#nextAt - this.#now())
  }

  ran(durationMs: number): void {
    this.#nextAt = this.#now() + durationMs / SHARE
  }
}

/** 3 per cent. */
const SHARE = 0.03
