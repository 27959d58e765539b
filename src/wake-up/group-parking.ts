import type { Parking, Scheduler } from './scheduler.ts'
import type { Waiter } from './waiting-queue.ts'

/**
 * Where a group's demand parks: with its stream, whose flag makes appends notify, and with its queue, for the next due time
 * alone. A flag for each group's queue would cost a notification per group whenever they wake.
 */
export class GroupParking implements Parking {
  readonly #scheduler: Scheduler
  readonly #wakeName: string
  readonly #ofStream = new WeakMap<Waiter, Waiter>()

  constructor(scheduler: Scheduler, wakeName: string) {
    this.#scheduler = scheduler
    this.#wakeName = wakeName
  }

  attach(waiter: Waiter): void {
    for (const each of [waiter, this.#streamOf(waiter)]) this.#scheduler.attach(each)
  }

  detach(waiter: Waiter): void {
    for (const each of [waiter, this.#streamOf(waiter)]) this.#scheduler.detach(each)
  }

  park(waiter: Waiter, nextDueMs: number | null): void {
    this.#scheduler.park(waiter, nextDueMs, 'quiet')
    this.#scheduler.park(this.#streamOf(waiter), null)
  }

  unpark(waiter: Waiter): void {
    for (const each of [waiter, this.#streamOf(waiter)]) this.#scheduler.unpark(each)
  }

  found(_queue: string, youngestMs: number): void {
    this.#scheduler.found(this.#wakeName, youngestMs)
  }

  #streamOf(waiter: Waiter): Waiter {
    const known = this.#ofStream.get(waiter)
    if (known !== undefined) return known
    const made: Waiter = {
      queue: this.#wakeName,
      wake: (reason) => waiter.wake(reason),
      checkAgain: (reason) => waiter.checkAgain(reason),
    }
    this.#ofStream.set(waiter, made)
    return made
  }
}
