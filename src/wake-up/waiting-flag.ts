import { Backoff } from '../basics/time/backoff.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import type { Execute } from '../table/statement.ts'
import { lowerFlag, raiseFlag, restFlag, tellLowered } from '../table/worker/wait.ts'
import { format } from './channel.ts'
import { Linger } from './linger.ts'

export interface WaitingFlagOptions {
  readonly queue: string
  /** The control connection, whose session holds the lock that is the flag. */
  readonly execute: Execute
  readonly workerId: () => number
  /** Called to check once more and then wait again: the flag was just raised, enqueues are in flight, or it lingers. */
  readonly onCheckAgain: () => void
}

/**
 * One process's part in the waiting flag of a queue. The flag makes enqueues notify only while a process waits, as a
 * futex does. A process raises it before it sleeps and lowers it when there is work. Raising it has three outcomes:
 *
 * - It is ours. No enqueue was in flight at that moment, so one more check sees all that committed before, and every
 *   later enqueue notifies.
 * - Enqueues are in flight. The process checks again soon, after about as long as they have taken so far.
 * - Another process has it. Its notifications reach us too. The process that lowers the flag notifies the others, even
 *   after a notification: one that was notified earlier may have found the flag still raised, and gone back to sleep.
 *
 * While a process lingers, the flag is down and it checks by itself. It notifies the others only when it stops
 * checking, because until then they can rely on it.
 */
export class WaitingFlag {
  readonly #options: WaitingFlagOptions
  readonly #linger = new Linger()
  readonly #retries = new Backoff(FIRST_RETRY_MS, LAST_RETRY_MS)
  #state: 'down' | 'moving' | 'ours' | 'others' = 'down'
  #wanted = false
  /** Whether other processes have changed the flag since the last try was sent. Its answer may be outdated then. */
  #moved = false
  /** The flag is down, and others who rely on it have not been notified. */
  #unannounced = false
  #closed = false
  #again: NodeJS.Timeout | undefined
  #againMs = FIRST_CHECK_MS
  #later: NodeJS.Timeout | undefined

  constructor(options: WaitingFlagOptions) {
    this.#options = options
  }

  /** We rely on another process's flag. */
  get reliesOnOthers(): boolean {
    return this.#state === 'others'
  }

  /** A pipeline of this process waits for the queue. */
  raise(): void {
    this.#wanted = true
    if (this.#again !== undefined) return
    if (this.#state === 'down' && this.#linger.lasts) {
      this.#checkIn(this.#linger.nextCheckMs())
      return
    }
    this.#linger.sleeps()
    if (this.#state === 'down') void this.#raise()
  }

  /** No pipeline of this process waits any more: all are busy. */
  lower(): void {
    this.#wanted = false
    this.#againMs = FIRST_CHECK_MS
    this.#cancelCheck()
    if (this.#state === 'ours') void this.#lower()
    if (this.#state === 'others') this.#state = 'down'
    if (this.#state === 'down') this.#next()
  }

  /** No pipeline of this process will wait again: it stops, or no longer consumes the queue. */
  close(): void {
    this.#closed = true
    this.#linger.end()
    this.lower()
  }

  /** Messages were found, the youngest of this age. */
  found(youngestMs: number): void {
    this.#againMs = FIRST_CHECK_MS
    // A process in which no pipeline waits does not check by itself: its time must run out, so that others are
    // notified.
    this.#linger.found(youngestMs, this.#wanted)
  }

  /** A notification: there are messages, or another process has lowered its flag. */
  notified(): void {
    this.#linger.notified()
    if (this.#state === 'ours' && this.#linger.lasts) void this.#rest()
    else this.othersMoved()
  }

  /** Another process has lowered its flag, or has been notified: this one tries next. */
  othersMoved(): void {
    this.#moved = true
    if (this.#state !== 'others') return
    this.#state = 'down'
    this.#next()
  }

  /** The lock was lost with the control connection. */
  forget(): void {
    if (this.#state === 'ours') this.#unannounced = true
    if (this.#state !== 'moving') this.#state = 'down'
  }

  /** Decides what to do next while the flag is down and no statement is under way. */
  #next(): void {
    if (this.#wanted) this.raise()
    else if (this.#unannounced && this.#linger.lasts) this.#nextIn(this.#linger.leftMs)
    else if (this.#unannounced) void this.#announce()
  }

  async #raise(): Promise<void> {
    this.#move()
    this.#moved = false
    const state = await raiseFlag(this.#options.execute, this.#options.queue).catch(() => 'failed' as const)
    if (state === 'ours' && !this.#wanted) return this.#lower()
    if (state === 'others' && this.#wanted && this.#moved) return this.#raise()
    if (state === 'ours' || state === 'others') this.#unannounced = false
    this.#state = this.#wanted && (state === 'ours' || state === 'others') ? state : 'down'
    if (state === 'failed') return this.#failed()
    this.#retries.reset()
    if (!this.#wanted) return this.#next()
    if (state === 'ours') {
      this.#againMs = FIRST_CHECK_MS
      this.#options.onCheckAgain()
    } else if (state === 'enqueueing') {
      this.#checkIn(this.#againMs)
      this.#againMs = Math.min(this.#againMs * 2, LAST_CHECK_MS)
    }
  }

  async #lower(): Promise<void> {
    this.#unannounced = true
    const { execute, queue } = this.#options
    await this.#moveDown(lowerFlag(execute, queue, this.#lowered), true)
  }

  get #lowered(): string {
    const { queue, workerId } = this.#options
    return format({ kind: 'lowered', queue, workerId: workerId() })
  }

  async #rest(): Promise<void> {
    this.#unannounced = true
    await this.#moveDown(restFlag(this.#options.execute, this.#options.queue), false)
  }

  async #announce(): Promise<void> {
    await this.#moveDown(tellLowered(this.#options.execute, this.#lowered), true)
  }

  async #moveDown(statement: Promise<void>, announces: boolean): Promise<void> {
    this.#move()
    const succeeded = await statement.then(
      () => true,
      () => false,
    )
    this.#state = 'down'
    if (!succeeded) return this.#failed()
    this.#retries.reset()
    if (announces) this.#unannounced = false
    this.#next()
  }

  #move(): void {
    clearTimeout(this.#later)
    this.#state = 'moving'
  }

  /**
   * The connection is gone, and the lock with it; or the server refused the statement, or ended its wait for the lock
   * of NOTIFY. Then the flag is down and the others do not know. The process tries again, with growing waits, unless it
   * may be about to end: then others find out by their polls.
   */
  #failed(): void {
    if (!this.#closed && (this.#wanted || this.#unannounced)) this.#nextIn(this.#retries.next())
  }

  #nextIn(ms: number): void {
    clearTimeout(this.#later)
    this.#later = startTimer(() => {
      if (this.#state === 'down') this.#next()
    }, ms).unref()
  }

  #checkIn(ms: number): void {
    this.#again = startTimer(() => {
      this.#again = undefined
      if (this.#wanted) this.#options.onCheckAgain()
    }, ms)
  }

  #cancelCheck(): void {
    clearTimeout(this.#again)
    this.#again = undefined
  }
}

const FIRST_CHECK_MS = 2
const LAST_CHECK_MS = 250
const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 30_000
