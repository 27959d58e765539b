import { startTimer } from '../basics/time/start-timer.ts'
import { Deadline, type Stopped } from './deadline.ts'
import type { LateSubject } from './handler-timeout.ts'

/**
 * The deadlines of a batch's handlers, with one timer and one end for all of them. A timer and a listener for each handler that
 * waits were a tenth of what it keeps in memory, and the garbage collector copies all of that while it waits.
 */
export class Deadlines {
  readonly timeoutMs: number
  readonly subject: LateSubject
  readonly #watched = new Set<Deadline>()
  #timer: NodeJS.Timeout | undefined
  #stopped: Stopped | undefined

  constructor(timeoutMs: number, subject: LateSubject) {
    this.timeoutMs = timeoutMs
    this.subject = subject
  }

  get stopped(): Stopped | undefined {
    return this.#stopped
  }

  /** Of handlers that run one after another. */
  next(): Deadline {
    return new Deadline(this)
  }

  /** Nothing can come of the batch any more: the handlers that run are to end, and no other begins. */
  stop(reason: unknown): void {
    this.#stopped ??= { reason }
    for (const deadline of this.#watched) deadline.stop(reason)
  }

  watch(deadline: Deadline): void {
    this.#watched.add(deadline)
    this.#timer ??= startTimer(this.#onTime, this.timeoutMs)
  }

  forget(deadline: Deadline): void {
    this.#watched.delete(deadline)
    if (this.#watched.size > 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Set for the first handler, it comes too early for those that began later. */
  readonly #onTime = (): void => {
    this.#timer = undefined
    let leastMs = Number.POSITIVE_INFINITY
    for (const deadline of this.#watched) {
      if (!deadline.isWaiting) continue
      const { leftMs } = deadline
      if (leftMs > 0) leastMs = Math.min(leastMs, leftMs)
      else {
        this.#watched.delete(deadline)
        deadline.late()
      }
    }
    if (leastMs < Number.POSITIVE_INFINITY) this.#timer = startTimer(this.#onTime, Math.ceil(leastMs))
  }
}
