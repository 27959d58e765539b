import type { DemandSleepers, Sleepers } from './sleepers.ts'
import type { Waiter } from './waiting-queue.ts'

/**
 * A group's demand sleeps on its stream, so that appends notify, and on its queue, for the next due time alone. A flag
 * for each group's queue would cost a notification per group at each wake-up.
 */
export class GroupSleepers implements DemandSleepers {
  readonly #sleepers: Sleepers
  readonly #wakeName: string
  readonly #ofStream = new WeakMap<Waiter, Waiter>()

  constructor(sleepers: Sleepers, wakeName: string) {
    this.#sleepers = sleepers
    this.#wakeName = wakeName
  }

  attach(waiter: Waiter): void {
    for (const each of [waiter, this.#streamOf(waiter)]) this.#sleepers.attach(each)
  }

  detach(waiter: Waiter): void {
    for (const each of [waiter, this.#streamOf(waiter)]) this.#sleepers.detach(each)
  }

  asleep(waiter: Waiter, nextDueMs: number | null): void {
    this.#sleepers.asleep(waiter, nextDueMs, 'quiet')
    this.#sleepers.asleep(this.#streamOf(waiter), null)
  }

  awake(waiter: Waiter): void {
    for (const each of [waiter, this.#streamOf(waiter)]) this.#sleepers.awake(each)
  }

  found(_queue: string, youngestMs: number): void {
    this.#sleepers.found(this.#wakeName, youngestMs)
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
