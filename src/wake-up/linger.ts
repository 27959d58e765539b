/**
 * Whether a process that was notified checks its queue by itself for a while, instead of raising its flag again at once.
 *
 * A COMMIT that notifies keeps a lock of the whole server until it is durable, on a synchronous standby as well where
 * there is one. A process that sleeps after each message and is notified of the next makes all enqueues take turns:
 * with a standby 10 ms away, 100 a second. A sleep shorter than about two commits costs more than it saves.
 */
export class Linger {
  #commitMs = 0
  #ms = 0
  #checkMs = FIRST_CHECK_MS
  #sleptAt: number | undefined
  #until = Number.NEGATIVE_INFINITY

  /** It is to check again before it sleeps. */
  get lasts(): boolean {
    return this.leftMs > 0
  }

  get leftMs(): number {
    return this.#until - performance.now()
  }

  /** The time before the next check while it lasts: it grows from 2 ms to 10. */
  nextCheckMs(): number {
    const ms = this.#checkMs
    this.#checkMs = Math.min(ms * 2, LAST_CHECK_MS)
    return ms
  }

  /**
   * Messages were found. The age of the youngest is about what a commit takes: it was inserted just before its own.
   *
   * @param extend for as long again
   */
  found(youngestMs: number, extend: boolean): void {
    this.#commitMs = Math.min(Math.max(0, youngestMs), LONGEST_MS)
    this.#checkMs = FIRST_CHECK_MS
    if (extend && this.#ms > 0) this.#for(2 * this.#commitMs)
  }

  sleeps(): void {
    this.#sleptAt = performance.now()
  }

  /**
   * A notification. A process that lingers for nothing, because others are faster, lingers twice as long the next time.
   */
  notified(): void {
    if (this.#sleptAt !== undefined) {
      const isShort = performance.now() - this.#sleptAt < 2 * this.#commitMs
      this.#ms = isShort ? Math.max(2 * this.#commitMs, 2 * this.#ms) : 0
      this.#sleptAt = undefined
    }
    this.#checkMs = FIRST_CHECK_MS
    this.#for(this.#ms)
  }

  end(): void {
    this.#ms = 0
    this.#until = Number.NEGATIVE_INFINITY
  }

  #for(ms: number): void {
    this.#ms = Math.min(ms, LONGEST_MS)
    this.#until = performance.now() + this.#ms
  }
}

/** A message of a transaction that goes on for long after its enqueue is old, and says nothing of the commit. */
const LONGEST_MS = 250
const FIRST_CHECK_MS = 2
const LAST_CHECK_MS = 10
