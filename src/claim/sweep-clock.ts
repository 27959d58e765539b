/**
 * When to sweep: scan a queue from the bottom, without floors. A sweep walks the dead rows that floors avoid, so sweeps
 * may cost 3 per cent of the time at most: after one that took 2 ms, the next comes after 67 ms at the earliest.
 * Workers on one queue share these 3 per cent: one sweep finds messages for all, and at 3 per cent each the sweeps of
 * 32 workers were half of the server's work.
 */
export class SweepClock {
  readonly #now: () => number
  #nextAt = Number.NEGATIVE_INFINITY
  #nextIdleAt = Number.NEGATIVE_INFINITY
  #workers = 1

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Milliseconds until a sweep may run; zero: now. */
  waitMs(): number {
    return Math.max(0, this.#nextAt - this.#now())
  }

  /**
   * The same for a claimer that found nothing: a sweep that was slow, perhaps only because the machine was busy, must
   * not keep it from seeing new messages for longer than a poll takes.
   */
  idleWaitMs(): number {
    return Math.max(0, this.#nextIdleAt - this.#now())
  }

  /** Sets how many workers consume the queue, this one included. */
  learn(workers: number): void {
    this.#workers = Math.max(1, workers)
  }

  ran(durationMs: number): void {
    const now = this.#now()
    const pauseMs = (durationMs * this.#workers) / SHARE
    this.#nextAt = now + Math.min(pauseMs, Math.max(durationMs * LEAST_TIMES, LONGEST_MS))
    this.#nextIdleAt = now + Math.min(pauseMs, Math.max(durationMs * 2, IDLE_MS))
  }
}

/** 3 per cent. */
const SHARE = 0.03

/**
 * While the queue is busy, messages that only a sweep finds, such as those of a new priority, wait no longer than this,
 * unless sweeps would then take more than a tenth of the time.
 */
const LONGEST_MS = 30_000
const LEAST_TIMES = 9

const IDLE_MS = 1_000
