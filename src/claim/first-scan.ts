import type { QueueScan } from '../table/claim/queue-scan.ts'

interface Begun {
  /** Claims may be sent. */
  readonly answered: Promise<unknown>
  readonly scan: Promise<QueueScan>
}

/**
 * A claimer's first scan of the queue. Without it the first claims would take the default priority before more urgent
 * ones. If it fails, the next claim begins it again.
 */
export class FirstScan {
  #begun: Begun | undefined
  #over = false

  /** Claims need not wait for it. */
  get over(): boolean {
    return this.#over
  }

  /** Returns the scan in progress, or starts one. `start` calls `answered` once claims can be sent. */
  begin(start: (answered: () => void) => Promise<QueueScan>): Begun {
    this.#begun ??= this.#begin(start)
    return this.#begun
  }

  #begin(start: (answered: () => void) => Promise<QueueScan>): Begun {
    const enough = Promise.withResolvers<void>()
    const scan = start(enough.resolve)
    const answered = Promise.race([enough.promise, scan])
    const failed = () => {
      this.#begun = undefined
    }
    scan.catch(() => undefined)
    answered.then(() => {
      this.#over = true
    }, failed)
    return { answered, scan }
  }
}
