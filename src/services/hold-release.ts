import { Backoff } from '../basics/backoff.ts'
import { pause } from '../basics/pause.ts'
import type { Control } from '../connection/control.ts'
import { releaseHolds } from '../table/operate/change-message.ts'

export interface HoldReleaseOptions {
  readonly control: Pick<Control, 'execute'>
  /** Whether this process consumes a queue. */
  readonly consumes: (queue: string) => boolean
  /**
   * Messages of a queue may be claimed now. The release itself notifies only if another session than its own waits, and
   * the control connection has this process's waiting flag.
   */
  readonly onReleased: (queue: string) => void
}

/**
 * Takes away the hold of a key whose message was cancelled while a batch had the key's slot. Whoever cancelled has not waited
 * for that; this tries again until the slot is free.
 */
export class HoldRelease {
  readonly #options: HoldReleaseOptions
  readonly #running = new Map<string, Promise<void>>()
  readonly #stopping = new AbortController()

  constructor(options: HoldReleaseOptions) {
    this.#options = options
  }

  /** A queue has such a hold. */
  asked(queue: string): void {
    if (this.#running.has(queue) || this.#stopping.signal.aborted || !this.#options.consumes(queue)) return
    const over = () => void this.#running.delete(queue)
    this.#running.set(queue, this.#release(queue).then(over, over))
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#running.values())
  }

  async #release(queue: string): Promise<void> {
    const backoff = new Backoff(20, 1_000)
    while (!this.#stopping.signal.aborted) {
      if ((await this.#releaseOnce(queue)) === 0 || !this.#options.consumes(queue)) return
      await pause(backoff.next(), this.#stopping.signal)
    }
  }

  /** Returns how many are left; undefined: the control connection failed, and is restored elsewhere. */
  async #releaseOnce(queue: string): Promise<number | undefined> {
    try {
      const left = await releaseHolds(this.#options.control.execute, queue)
      this.#options.onReleased(queue)
      return left
    } catch {
      return undefined
    }
  }
}
