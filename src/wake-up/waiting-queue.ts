import { startTimer } from '../basics/start-timer.ts'
import type { Control } from '../connection/control.ts'
import type { PolledQueue } from '../table/worker/wait.ts'
import { WaitingFlag } from './waiting-flag.ts'

/** Why a waiter is woken. Each is only a hint; the table says what there is. */
export type WakeReason = 'notification' | 'due' | 'poll' | 'check again' | 'reconnect' | 'poke'

/** The demand of a pipeline, as the sleepers sees it. */
export interface Waiter {
  readonly queue: string
  /** Called if it is asleep: claim now. */
  wake(reason: WakeReason): void
  /** Called if it is awake: claim once more, because a claim that is under way may have missed what there is. */
  checkAgain(reason: WakeReason): void
}

export interface WaitingQueueOptions {
  readonly control: Pick<Control, 'execute'>
  readonly workerId: () => number
}

/** Those in this process who consume one queue: who of them waits, until when, and whether the flag says so. */
export class WaitingQueue {
  readonly name: string
  readonly waiters = new Set<Waiter>()
  readonly asleep = new Set<Waiter>()
  readonly flag: WaitingFlag
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  /** When it was last polled: of a stream the last position drawn, of a group what decides which of its events it may read. */
  #state: string | undefined

  constructor(name: string, { control, workerId }: WaitingQueueOptions) {
    this.name = name
    this.flag = new WaitingFlag({
      queue: name,
      workerId,
      execute: control.execute,
      onCheckAgain: () => this.wake('check again'),
    })
  }

  wake(reason: WakeReason): void {
    const asleep = new Set(this.asleep)
    this.asleep.clear()
    this.#disarm()
    for (const waiter of [...this.waiters]) {
      if (asleep.has(waiter)) waiter.wake(reason)
      else waiter.checkAgain(reason)
    }
  }

  /** One timer for the earliest due time, rounded up so that no claim comes too early. */
  wakeIn(ms: number): void {
    const dueAt = performance.now() + Math.max(0, ms)
    if (dueAt >= this.#dueAt) return
    this.#disarm()
    this.#dueAt = dueAt
    this.#timer = startTimer(() => this.wake('due'), Math.ceil(Math.max(0, ms)) + 1)
  }

  /** Those who do not wait need no hint. */
  wakeSleeping(reason: WakeReason): void {
    if (this.asleep.size > 0) this.wake(reason)
  }

  polled(found: PolledQueue): void {
    if (this.asleep.size === 0) return
    if (found.keyed || (found.nextDueMs !== null && found.nextDueMs <= 0)) this.wake('poll')
    else if (found.nextDueMs !== null) this.wakeIn(found.nextDueMs)
  }

  /**
   * Something was appended or moved since the last poll, or it has been asleep for less than that. Those who do not wait
   * claim once more: a claim that is under way may be older than this poll, and the next poll finds the same.
   */
  polledState(state: string): void {
    const isSame = state === this.#state
    this.#state = state
    if (!isSame) this.wake('poll')
  }

  close(): void {
    this.#disarm()
    this.flag.close()
  }

  #disarm(): void {
    clearTimeout(this.#timer)
    this.#dueAt = Number.POSITIVE_INFINITY
  }
}
