import { Backoff } from '../basics/time/backoff.ts'
import { pause } from '../basics/time/pause.ts'
import { stopped, toError } from '../errors.ts'
import type { Report } from '../telemetry/events.ts'
import { mayPass } from './passing.ts'

/**
 * Retries the first connection of a process while a caller waits for it and the error may pass. All waiters
 * share one loop.
 */
export class Patience {
  readonly #attempt: () => Promise<void>
  readonly #report: Report
  readonly #stopping = new AbortController()
  #waiting = 0
  #attempts: Promise<void> | undefined

  constructor(attempt: () => Promise<void>, report: Report) {
    this.#attempt = attempt
    this.#report = report
  }

  /**
   * Resolves when an attempt has succeeded.
   *
   * @throws the error of an attempt, if another would fail as well; the reason of the signal when that aborts; and
   * SluiceError STOPPED after {@link stop}.
   */
  async wait(signal: AbortSignal): Promise<void> {
    const given = AbortSignal.any([signal, this.#stopping.signal])
    given.throwIfAborted()
    const left = Promise.withResolvers<never>()
    const leave = () => left.reject(given.reason)
    given.addEventListener('abort', leave)
    this.#waiting += 1
    try {
      this.#attempts ??= this.#repeat()
      await Promise.race([left.promise, this.#attempts])
    } finally {
      this.#waiting -= 1
      given.removeEventListener('abort', leave)
    }
  }

  /** Rejects all waiters with STOPPED. */
  stop(): void {
    this.#stopping.abort(stopped('sluice before it had connected'))
  }

  async #repeat(): Promise<void> {
    const backoff = new Backoff(100, 5_000)
    try {
      while (this.#waiting > 0 && !this.#stopping.signal.aborted) {
        try {
          return await this.#attempt()
        } catch (error) {
          if (!mayPass(error)) throw error
          if (this.#waiting === 0 || this.#stopping.signal.aborted) return
          const retryInMs = backoff.next()
          this.#report({ kind: 'connection.failed', role: 'control', error: toError(error), retryInMs })
          await pause(retryInMs, this.#stopping.signal)
        }
      }
    } finally {
      this.#attempts = undefined
    }
  }
}
