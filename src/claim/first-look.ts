import type { Lanes } from '../table/lanes.ts'

interface Begun {
  /** Claims may be sent. */
  readonly answered: Promise<unknown>
  readonly lanes: Promise<Lanes>
}

/**
 * The look over the queue with which a claimer begins. Without it the first claims would take the default priority
 * before those that go first. If it fails, the next claim begins it again.
 */
export class FirstLook {
  #begun: Begun | undefined
  #over = false

  /** Claims need not wait for it. */
  get over(): boolean {
    return this.#over
  }

  /** Returns the look in progress, or starts one. `look` calls `answered` where its answer is enough to claim by. */
  begin(look: (answered: () => void) => Promise<Lanes>): Begun {
    this.#begun ??= this.#begin(look)
    return this.#begun
  }

  #begin(look: (answered: () => void) => Promise<Lanes>): Begun {
    const enough = Promise.withResolvers<void>()
    const lanes = look(enough.resolve)
    const answered = Promise.race([enough.promise, lanes])
    const failed = () => {
      this.#begun = undefined
    }
    lanes.catch(() => undefined)
    answered.then(() => {
      this.#over = true
    }, failed)
    return { answered, lanes }
  }
}
