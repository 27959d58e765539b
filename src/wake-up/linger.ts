/**
 * Decides whether a process that was notified checks its queue by itself for a while, instead of raising its flag again
 * at once.
 *
 * A COMMIT that notifies keeps a lock of the whole server until it is durable, and also until a synchronous standby has
 * answered. A process that sleeps after each message and is notified of the next makes all enqueues take turns: 100 a
 * second if the standby is 10 ms away. A sleep that is shorter than about two commits costs more than it saves.
 */
export class Linger {
  #commitMs = 0
  #ms = 0
  #checkMs = FIRST_CHECK_MS
  #sleptAt: number | undefined
  #until = Number.NEGATIVE_INFINITY

  /** Whether to check again before the next sleep. */
  get lasts(): boolean {
    return this.leftMs > 0
  }

  get leftMs(): number {
    return this.#until - performance.now()
  }

  /** The time before the next check, which grows from 2 ms to 10 ms. */
  nextCheckMs(): number {
    const ms = this.#checkMs
    this.#checkMs = Math.min(ms * 2, LAST_CHECK_MS)
    return ms
  }

  /**
   * Messages were found. The youngest was inserted just before its COMMIT, so its age is about the time of a COMMIT.
   *
   * @param extend whether to go on for as long again
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
   * A notification came. A process that lingers for nothing, because others are faster, lingers twice as long next
   * time.
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

/** An older message says nothing about the time of a COMMIT: its transaction may have gone on after the enqueue. */
const LONGEST_MS = 250
const FIRST_CHECK_MS = 2
const LAST_CHECK_MS = 10
