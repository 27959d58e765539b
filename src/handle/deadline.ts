import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { CallTime } from './call-time.ts'
import { handlerTimeout, type LateSubject } from './handler-timeout.ts'
import { type Heard, HeardLater } from './heard.ts'

/** Who sends the handler's statements. */
export interface StatementSender {
  /** One of them is on the server: it runs, or waits for a lock. */
  readonly awaitsAnswer: boolean
}

/** What a deadline has in common with the others of its batch. */
interface Common {
  readonly timeoutMs: number
  readonly subject: LateSubject
  /** Why nothing can come of the batch any more. */
  readonly stopped: Stopped | undefined
  /** A handler is waited for. */
  watch(deadline: Deadline): void
  /** No other handler is. */
  forget(deadline: Deadline): void
}

export interface Stopped {
  readonly reason: unknown
}

/**
 * The time of handlers that run one after another. A handler cannot be killed: when its time is up it goes on, with its signal
 * aborted and its transaction closed, and what it does then no longer counts.
 */
export class Deadline {
  readonly #all: Common
  #time: CallTime | undefined
  #running: readonly DeliveredMessage[] = NOTHING
  #heard: Heard<never> | undefined
  #sender: StatementSender | undefined
  #stopped: Stopped | undefined
  #readOwnEnd = false

  constructor(all: Common) {
    this.#all = all
  }

  /** Nothing can come of its handlers any more. */
  get isOver(): boolean {
    return this.#whyOver !== undefined
  }

  /** A handler is waited for: its time can run out. */
  get isWaiting(): boolean {
    return this.#heard !== undefined
  }

  /** The messages of the call that runs. */
  get running(): readonly DeliveredMessage[] {
    return this.#running
  }

  /** A handler has been called, and is not over. */
  get isCalling(): boolean {
    return this.#time?.isOver === false
  }

  /** Of the handler that runs. */
  get leftMs(): number {
    return this.#all.timeoutMs - (this.#time?.tookMs ?? 0)
  }

  /** The next handler begins. @param messages those that it is called with; none: a schema is asked before it */
  next(messages: readonly DeliveredMessage[] = NOTHING): CallTime {
    const time = new CallTime()
    this.#time = time
    this.#running = messages
    this.#readOwnEnd = false
    return time
  }

  /** The handler is over, and what it wrote is kept or undone. */
  over(): void {
    this.#running = NOTHING
  }

  /**
   * Waits for what the handler does, at most until its time is up or its batch ends early.
   *
   * @param sender whose statements the handler waits for, if it is late
   * @throws SluiceError HANDLER_TIMEOUT, the reason for which the batch ends, or what the work throws.
   */
  await<T>(work: PromiseLike<T>, sender?: StatementSender): Promise<T> {
    const heard = new HeardLater<T>()
    this.hear(work, sender, heard)
    return heard.result
  }

  /**
   * As {@link await}, without a promise of its own: one for each layer between a handler and its outcome was a tenth of what a
   * message allocates.
   */
  hear<T>(work: PromiseLike<T>, sender: StatementSender | undefined, heard: Heard<T>): void {
    this.#sender = sender
    this.#heard = heard
    this.#all.watch(this)
    // As `await` does it: a promise stays itself, also if it has a `then` of its own; another thenable may answer at once,
    // twice, or with a promise.
    THEN.call(
      Promise.resolve(work),
      (result) => {
        if (this.#isHeardBy(heard)) heard.answered(result as T)
      },
      (error: unknown) => {
        if (this.#isHeardBy(heard)) heard.failed(error)
      },
    )
    if (this.#whyOver !== undefined) this.abort(this.#whyOver.reason)
  }

  /** The handler that runs is to end, for this reason. */
  abort(reason: unknown): void {
    this.#time?.abort(reason)
    const heard = this.#heard
    this.#heard = undefined
    if (heard !== undefined) queueMicrotask(() => heard.failed(reason))
  }

  /** As {@link abort}, and nothing can come of later ones. */
  stop(reason: unknown): void {
    this.#stopped ??= { reason }
    this.abort(reason)
  }

  /** The time of the handler that runs is up. */
  late(): void {
    const { subject, timeoutMs } = this.#all
    this.abort(handlerTimeout(subject, timeoutMs, this.#sender?.awaitsAnswer === true, this.#readOwnEnd))
  }

  /** The handler that runs has read when its own pipeline ends. */
  readOwnEnd(): void {
    this.#readOwnEnd = true
  }

  /** The batch has no more handlers. */
  end(): void {
    this.#all.forget(this)
    this.#time = undefined
    this.#sender = undefined
  }

  get #whyOver(): Stopped | undefined {
    return this.#stopped ?? this.#all.stopped
  }

  /** Whether it still waits. From here on it does not. */
  #isHeardBy(heard: Heard<never>): boolean {
    if (this.#heard !== heard) return false
    this.#heard = undefined
    return true
  }
}

const NOTHING: readonly DeliveredMessage[] = []

const THEN = Promise.prototype.then
