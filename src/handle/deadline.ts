import { startTimer } from '../basics/start-timer.ts'
import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Ending } from './ending.ts'
import { handlerTimeout, type LateSubject } from './handler-timeout.ts'

/**
 * The time of handlers that run one after another: one timer and one listener for all of them. A handler
 * cannot be killed: when its time is up it goes on, with its signal aborted and its transaction closed, and what it
 * does then no longer counts.
 */
export class Deadline {
  readonly #timeoutMs: number
  readonly #subject: LateSubject
  readonly #batch: Ending
  readonly #onBatchEnd = () => this.#give(this.#batch.reason)
  #time: CallTime | undefined
  #running: readonly DeliveredMessage[] = NOTHING
  #timer: NodeJS.Timeout | undefined
  #reject: ((error: unknown) => void) | undefined
  #sender: StatementSender | undefined

  /** `batch`: aborts when nothing can come of the batch any more. */
  constructor(timeoutMs: number, subject: LateSubject, batch: Ending) {
    this.#timeoutMs = timeoutMs
    this.#subject = subject
    this.#batch = batch
    batch.addEventListener('abort', this.#onBatchEnd)
  }

  /** Nothing can come of its handlers any more. */
  get isOver(): boolean {
    return this.#batch.aborted
  }

  /** The messages of the call that runs. */
  get running(): readonly DeliveredMessage[] {
    return this.#running
  }

  /** The next handler begins. @param messages those that it is called with; none: a schema is asked before it */
  next(messages: readonly DeliveredMessage[] = NOTHING): CallTime {
    const time = new CallTime()
    this.#time = time
    this.#running = messages
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
    return new Promise((resolve, reject) => this.hear(work, sender, resolve, reject))
  }

  /**
   * As {@link await}, without a promise: calls one of the two, once, and later. A promise for each layer between a handler and
   * its outcome was a tenth of what a message allocates.
   */
  hear<T>(
    work: PromiseLike<T>,
    sender: StatementSender | undefined,
    onResult: (result: T) => void,
    onError: (error: unknown) => void,
  ): void {
    this.#sender = sender
    this.#timer ??= startTimer(this.#onTime, this.#timeoutMs)
    let isHeard = false
    const fail = (error: unknown) => {
      if (isHeard) return
      isHeard = true
      onError(error)
    }
    const answer = (result: T) => {
      if (isHeard) return
      isHeard = true
      onResult(result)
    }
    this.#reject = (error) => {
      if (isHeard) return
      isHeard = true
      queueMicrotask(() => onError(error))
    }
    work.then(answer, fail)
    if (this.#batch.aborted) this.#onBatchEnd()
  }

  /** The handler that runs is to end, for this reason. */
  abort(reason: unknown): void {
    this.#give(reason)
  }

  /** The batch has no more handlers. */
  end(): void {
    clearTimeout(this.#timer)
    this.#batch.removeEventListener('abort', this.#onBatchEnd)
  }

  /** Set for an earlier handler, it may come too early for this one. */
  readonly #onTime = (): void => {
    const leftMs = this.#timeoutMs - (this.#time?.tookMs ?? 0)
    this.#timer = leftMs > 0 ? startTimer(this.#onTime, Math.ceil(leftMs)) : undefined
    if (leftMs <= 0) this.#give(handlerTimeout(this.#subject, this.#timeoutMs, this.#sender?.awaitsAnswer === true))
  }

  #give(error: unknown): void {
    this.#time?.abort(error)
    this.#reject?.(error)
  }
}

const NOTHING: readonly DeliveredMessage[] = []

/** One handler's part of a batch's time. */
export class CallTime {
  readonly startedAtMs = performance.now()
  #startedAt = this.startedAtMs
  #endedAt: number | undefined
  #controller: AbortController | undefined

  /** Made when it is first asked for: most handlers never do. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    return this.#controller.signal
  }

  get tookMs(): number {
    return (this.#endedAt ?? performance.now()) - this.#startedAt
  }

  restart(): void {
    this.#startedAt = performance.now()
  }

  /** The handler is over. What the server takes for its end is not its time. Returns whether it was not over before. */
  end(): boolean {
    if (this.#endedAt !== undefined) return false
    this.#endedAt = performance.now()
    return true
  }

  get endedAtMs(): number {
    return this.#endedAt ?? performance.now()
  }

  abort(reason: unknown): void {
    this.#controller ??= new AbortController()
    this.#controller.abort(reason)
  }
}

/** Who sends the handler's statements. */
export interface StatementSender {
  /** One of them is on the server: it runs, or waits for a lock. */
  readonly awaitsAnswer: boolean
}
