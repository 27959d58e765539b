import type { Execute } from '../table/statement.ts'
import { lowerFlag, raiseFlag } from '../table/wait.ts'

export interface WaitingFlagOptions {
  readonly queue: string
  /** The control connection: the flag is a lock of its session. */
  readonly execute: Execute
  readonly workerId: () => number
  /** Look once more, then wait again: the flag was just raised, or enqueues are in flight. */
  readonly onLookAgain: () => void
}

/**
 * One process's share in a queue's waiting flag, the futex that makes enqueues notify only when somebody waits.
 * Raised before sleep, lowered when there is work. Three outcomes of raising it:
 *
 * - it is ours: no enqueue was in flight at that moment, so one more look sees all that committed before, and every
 *   later enqueue notifies;
 * - enqueues are in flight: look again soon, waiting about as long as they have taken so far;
 * - another process waits: its notifications reach us too. Who lowers the flag tells the others, even after a
 *   notification: one that was notified earlier may have found the flag still raised, and gone back to sleep.
 */
export class WaitingFlag {
  readonly #options: WaitingFlagOptions
  #state: 'down' | 'moving' | 'held' | 'others' = 'down'
  #wanted = false
  /** The others have moved since the last try was sent: its answer may be older. */
  #moved = false
  #again: NodeJS.Timeout | undefined
  #againMs = FIRST_LOOK_MS

  constructor(options: WaitingFlagOptions) {
    this.#options = options
  }

  /** We rely on another process's flag. */
  get heldByOthers(): boolean {
    return this.#state === 'others'
  }

  /** Somebody in this process waits for the queue. */
  raise(): void {
    this.#wanted = true
    if (this.#state === 'down' && this.#again === undefined) void this.#raise()
  }

  /** Nobody in this process waits any more: it is busy, or stops. */
  lower(): void {
    this.#wanted = false
    this.#againMs = FIRST_LOOK_MS
    this.#cancelLook()
    if (this.#state === 'held') void this.#lower()
    if (this.#state === 'others') this.#state = 'down'
  }

  /** Another process has lowered its flag, or notified: ours is the next to try. */
  othersMoved(): void {
    this.#moved = true
    if (this.#state !== 'others') return
    this.#state = 'down'
    if (this.#wanted) void this.#raise()
  }

  /** The lock went with the control connection. */
  forget(): void {
    if (this.#state !== 'moving') this.#state = 'down'
  }

  async #raise(): Promise<void> {
    this.#state = 'moving'
    this.#moved = false
    const state = await raiseFlag(this.#options.execute, this.#options.queue).catch(() => 'down' as const)
    if (state === 'held' && !this.#wanted) return this.#lower()
    if (state === 'others' && this.#wanted && this.#moved) return this.#raise()
    this.#state = state === 'enqueueing' || !this.#wanted ? 'down' : state
    if (!this.#wanted) return
    if (state === 'held') {
      this.#againMs = FIRST_LOOK_MS
      this.#options.onLookAgain()
    } else if (state === 'enqueueing') {
      this.#lookSoon()
    }
  }

  async #lower(): Promise<void> {
    this.#state = 'moving'
    // A failure means that the connection is gone, and the lock with it.
    await lowerFlag(this.#options.execute, this.#options.queue, this.#options.workerId()).catch(() => undefined)
    this.#state = 'down'
    if (this.#wanted) await this.#raise()
  }

  #lookSoon(): void {
    this.#again = setTimeout(() => {
      this.#again = undefined
      if (this.#wanted) this.#options.onLookAgain()
    }, this.#againMs)
    this.#againMs = Math.min(this.#againMs * 2, LAST_LOOK_MS)
  }

  #cancelLook(): void {
    clearTimeout(this.#again)
    this.#again = undefined
  }
}

const FIRST_LOOK_MS = 2
const LAST_LOOK_MS = 250
