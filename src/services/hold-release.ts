import { Backoff } from '../basics/time/backoff.ts'
import { pause } from '../basics/time/pause.ts'
import type { Control } from '../connection/control.ts'
import { readOrphanedHolds, releaseHolds } from '../table/worker/release-holds.ts'
import { Interval, type Service } from './service.ts'

export interface HoldReleaseOptions {
  readonly control: Pick<Control, 'execute'>
  /** The queues that this process consumes. */
  readonly queues: () => readonly string[]
  /**
   * Messages of a queue may be claimed now. The release itself notifies only if another session than its own waits, and
   * the control connection has this process's waiting flag.
   */
  readonly onReleased: (queue: string) => void
  /** How often to look for holds whose notification was missed, in milliseconds. @default 60000 */
  readonly intervalMs?: number
}

/**
 * Takes away the hold of a key whose message was cancelled while a batch had the key's slot. The cancel has not waited
 * for that; this tries again until the slot is free. The notification is a hint: it gets lost while no process consumes
 * the queue, or none listens. So each process also looks for such holds once a minute.
 */
export class HoldRelease implements Service<void> {
  readonly #options: HoldReleaseOptions
  readonly #interval: Interval
  readonly #running = new Map<string, Promise<void>>()
  /** Queues that were notified since the last try was sent. */
  readonly #asked = new Set<string>()
  readonly #stopping = new AbortController()

  constructor(options: HoldReleaseOptions) {
    this.#options = options
    this.#interval = new Interval(options.intervalMs ?? 60_000, () => this.runOnce())
  }

  start(): void {
    this.#interval.start()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([this.#interval.stop(), ...this.#running.values()])
  }

  /** Looks for such holds. */
  async runOnce(): Promise<void> {
    const queues = this.#options.queues()
    if (queues.length === 0) return
    for (const queue of await readOrphanedHolds(this.#options.control.execute, queues)) this.asked(queue)
  }

  /** A queue has such a hold. */
  asked(queue: string): void {
    if (this.#stopping.signal.aborted || !this.#consumes(queue)) return
    this.#asked.add(queue)
    if (!this.#running.has(queue)) this.#running.set(queue, this.#release(queue))
  }

  #consumes(queue: string): boolean {
    return this.#options.queues().includes(queue)
  }

  async #release(queue: string): Promise<void> {
    const backoff = new Backoff(20, 1_000)
    while (!this.#stopping.signal.aborted && this.#consumes(queue)) {
      this.#asked.delete(queue)
      const left = await this.#releaseOnce(queue)
      if (left !== 0) await pause(backoff.next(), this.#stopping.signal)
      else if (!this.#asked.has(queue)) break
    }
    this.#running.delete(queue)
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
