import { startTimer } from '../basics/time/start-timer.ts'
import type { Control } from '../connection/control.ts'
import type { PolledQueue } from '../table/worker/wait.ts'
import { WaitingFlag } from './waiting-flag.ts'

/** Why a waiter is woken. Each is only a hint; the table says what there is. */
export type WakeReason = 'notification' | 'due' | 'poll' | 'check again' | 'reconnect' | 'poke'

/** The demand of a pipeline, as the sleepers see it. */
export interface Waiter {
  readonly queue: string
  /** How many connections it may use at a time. @default none of its own */
  readonly connections?: number
  /** Called if it is asleep: claim now. */
  wake(reason: WakeReason): void
  /** Called if it is awake: claim once more, because a claim that is under way may have missed messages. */
  checkAgain(reason: WakeReason): void
}

export interface WaitingQueueOptions {
  readonly control: Pick<Control, 'execute'>
  readonly workerId: () => number
}

/** The waiters of one queue in this process: which of them sleep, until when, and the flag. */
export class WaitingQueue {
  readonly name: string
  readonly waiters = new Set<Waiter>()
  readonly asleep = new Set<Waiter>()
  readonly flag: WaitingFlag
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  /** As of the last poll: the last position of a stream, or the state that decides which events a group may read. */
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

  /** Waiters that are awake need no hint. */
  wakeSleeping(reason: WakeReason): void {
    if (this.asleep.size > 0) this.wake(reason)
  }

  polled(found: PolledQueue): void {
    if (this.asleep.size === 0) return
    if (found.keyed || (found.nextDueMs !== null && found.nextDueMs <= 0)) this.wake('poll')
    else if (found.nextDueMs !== null) this.wakeIn(found.nextDueMs)
  }

  /**
   * Wakes if events were appended, or the group moved, since the last poll, and at the first poll. Waiters that are
   * awake claim once more: a claim under way may be older than this poll, and the next poll finds the same state.
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
