import { isPromise } from '../basics/promises/is-promise.ts'
import { toError } from '../errors.ts'
import type { Report } from '../telemetry/events.ts'

/**
 * All calls of the user's SDK pass here. A sampler, a processor, an exporter or a context manager that throws must not
 * disturb the queue. The first failure is reported: a broken SDK fails with each message.
 */
export class Guard {
  readonly #report: Report
  #reported = false

  constructor(report: Report) {
    this.#report = report
  }

  /** Undefined if it throws. */
  try<T>(call: () => T): T | undefined {
    try {
      const returned = call()
      // Nobody else hears a rejection, which would end the process.
      if (isPromise(returned)) returned.then(undefined, this.#failed)
      return returned
    } catch (error) {
      this.#failed(error)
      return undefined
    }
  }

  readonly #failed = (thrown: unknown): void => {
    if (this.#reported) return
    this.#reported = true
    this.#report({ kind: 'telemetry.failed', error: toError(thrown) })
  }
}
