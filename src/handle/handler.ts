import type { Duration } from '../basics/duration.ts'
import type { EnqueueOptions } from '../enqueue/options.ts'
import { errorText, expected, SluiceError, STOPPED } from '../errors.ts'
import { deadLetter, type Message, type Outcome, retryLater, snooze } from '../message.ts'
import type { Mode } from '../plan/options.ts'
import type { InputOf, QueueDefinitions, QueueName } from '../queues.ts'
import type { Ending } from './ending.ts'
import type { HandlerTransaction } from './transaction/message-transaction.ts'

/** Enqueues in the handler's transaction: the message exists if and only if the handler's batch commits. */
export type EnqueueInTransaction<Definitions extends QueueDefinitions | undefined = undefined> = <
  Name extends QueueName<Definitions>,
>(
  queue: Name,
  payload: InputOf<Definitions, Name>,
  options?: EnqueueOptions,
) => Promise<string>

/** What a handler gets beside the message in every mode. */
export interface CommonContext {
  /**
   * Aborts when the handler has taken too long, the pipeline is told to stop, or the batch's connection is lost. Its
   * `reason` is a SluiceError.
   */
  readonly signal: AbortSignal
  /** Which try this is, from 1. */
  readonly attempt: number
}

/** What a handler gets beside the message in transactional mode. */
export interface HandlerContext<Definitions extends QueueDefinitions | undefined = undefined> extends CommonContext {
  /** The batch's transaction, for this handler. */
  readonly tx: HandlerTransaction
  /** Enqueues in the same transaction: what a failed handler has enqueued does not exist. */
  readonly enqueue: EnqueueInTransaction<Definitions>
}

/** What a handler gets beside the message in leased mode: no transaction is open. */
export interface LeasedContext extends CommonContext {
  /**
   * The same through retries and redrive, and another for each message of a database: give it to services that take one,
   * so that a second delivery does nothing twice.
   */
  readonly idempotencyKey: string
  /** When the lease ends if it is not renewed; it is renewed while the handler runs. */
  readonly leaseUntil: Date
  /**
   * Renews the lease now, and gives the handler its whole `timeout` again.
   *
   * @throws SluiceError LEASE_LOST
   */
  extend(): Promise<void>
  /**
   * Runs `work` in a short transaction that also removes the message, if it still has its lease: what is written through
   * `tx` takes effect exactly once. It ends the message: what the handler does after it, or throws, changes nothing. Once
   * per message.
   *
   * @throws SluiceError LEASE_LOST, COMMIT_FAILED, and what `work` throws: then nothing of it holds
   *
   * @example
   * const receipt = await charge(payload, { idempotencyKey })
   * await transaction((tx) => tx.query('INSERT INTO receipt VALUES ($1)', [receipt.id]))
   */
  transaction<T>(work: (tx: HandlerTransaction) => T | Promise<T>): Promise<T>
}

/** What a handler gets beside the message, by the mode of its pipeline: `tx` exists only where a transaction is open. */
export interface ContextByMode<Definitions extends QueueDefinitions | undefined = undefined> {
  readonly transactional: HandlerContext<Definitions>
  readonly leased: LeasedContext
}

/**
 * Handles one message. Return nothing (or `ack()`) when it is done; `retryLater()`, `snooze()` or `deadLetter()`
 * otherwise. Throwing means: retry as the policy says. Whatever failed leaves no trace in the database.
 *
 * Anything else that is returned fails the message, also the id that `enqueue` returns: with
 * `(message, { enqueue }) => enqueue(…)` each message fails. Write braces around it: `{ await enqueue(…) }`.
 */
export type Handler<
  Payload = unknown,
  Definitions extends QueueDefinitions | undefined = undefined,
  In extends Mode = 'transactional',
> = (message: Message<Payload>, context: ContextByMode<Definitions>[In]) => Outcome | void | Promise<Outcome | void>

/** What a batch handler gets beside the messages. */
export type BatchHandlerContext<
  Definitions extends QueueDefinitions | undefined = undefined,
  In extends Mode = 'transactional',
> = Omit<ContextByMode<Definitions>[In], 'attempt' | 'idempotencyKey'>

/**
 * Handles a whole batch in one transaction. Return nothing when all are done, or one outcome per message, in their
 * order; what was written is kept then. If it throws, its writes are rolled back, and it is called once per message, in
 * the same transaction but each with a savepoint of its own, so that only the one to blame fails.
 */
export type BatchHandler<
  Payload = unknown,
  Definitions extends QueueDefinitions | undefined = undefined,
  In extends Mode = 'transactional',
> = (
  messages: readonly Message<Payload>[],
  context: BatchHandlerContext<Definitions, In>,
) => readonly (Outcome | void)[] | void | Promise<readonly (Outcome | void)[] | void>

/** Thrown instead of calling a handler that is gone: nothing is known against the message, which stays as it was. */
export class NotHandled extends SluiceError {
  constructor() {
    super('STOPPED', STOPPED.subscriber)
  }
}

/** @throws SluiceError OPTION_INVALID for a handler that is no function. */
export function checkFunction<Handle>(what: string, handle: Handle): Handle {
  if (typeof handle === 'function') return handle
  throw expected('OPTION_INVALID', what, 'a function', handle, `As in ${what}(async (…) => …)`)
}

/** What a handler returned, as an outcome that can be written. @throws SluiceError OPTION_INVALID for anything else. */
export function toOutcome(
  returned: unknown,
  what = "The handler's result",
  remedy = 'A handler that only awaits its work returns nothing',
): Outcome {
  if (returned === undefined) return { kind: 'ack' }
  if (typeof returned === 'object' && returned !== null && 'kind' in returned) {
    // Of the right kind, but perhaps not made by our functions, which check the rest.
    const { kind, afterMs, reason, error } = returned as Record<string, unknown>
    if (kind === 'ack') return { kind }
    if (kind === 'retry') return retryLater({ after: afterMs as Duration, error })
    if (kind === 'snooze') return snooze({ after: afterMs as Duration })
    if (kind === 'deadLetter' && typeof reason === 'string') return deadLetter(errorText(reason), error)
  }
  throw expected('OPTION_INVALID', what, 'nothing, ack(), retryLater(), snooze() or deadLetter()', returned, remedy)
}

/** What a batch handler returned, as one outcome per message. @throws SluiceError OPTION_INVALID */
export function toOutcomes(returned: unknown, count: number): readonly Outcome[] {
  if (returned === undefined) return Array.from({ length: count }, () => ({ kind: 'ack' }))
  if (Array.isArray(returned) && returned.length === count)
    return returned.map((outcome: unknown) => toOutcome(outcome))
  throw expected('OPTION_INVALID', "The batch handler's result", `nothing, or ${count} outcomes`, returned)
}

/**
 * The time of a batch's handlers, which run one after another: one timer and one listener for all of them. A handler
 * cannot be killed: when its time is up it goes on, with its signal aborted and its transaction closed, and what it
 * does then no longer counts.
 */
export class Deadline {
  readonly #timeoutMs: number
  readonly #subject: LateSubject
  readonly #batch: Ending
  readonly #onBatchEnd = () => this.#give(this.#batch.reason)
  #turn = new Turn()
  #timer: NodeJS.Timeout | undefined
  #reject: ((error: unknown) => void) | undefined

  /** `batch`: aborts when nothing can come of the batch any more. */
  constructor(timeoutMs: number, subject: LateSubject, batch: Ending) {
    this.#timeoutMs = timeoutMs
    this.#subject = subject
    this.#batch = batch
    batch.addEventListener('abort', this.#onBatchEnd)
  }

  /** The next handler begins. */
  next(): Turn {
    this.#turn = new Turn()
    return this.#turn
  }

  /**
   * Waits for what the handler does, at most until its time is up or its batch ends early.
   *
   * @throws SluiceError HANDLER_TIMEOUT, the reason for which the batch ends, or what the work throws.
   */
  await<T>(work: PromiseLike<T>): Promise<T> {
    this.#timer ??= setTimeout(this.#onTime, this.#timeoutMs)
    return new Promise<T>((resolve, reject) => {
      this.#reject = reject
      work.then(resolve, reject)
      if (this.#batch.aborted) this.#onBatchEnd()
    })
  }

  /** The batch has no more handlers. */
  end(): void {
    clearTimeout(this.#timer)
    this.#batch.removeEventListener('abort', this.#onBatchEnd)
  }

  /** Set for an earlier handler, it may come too early for this one. */
  readonly #onTime = (): void => {
    const leftMs = this.#timeoutMs - this.#turn.tookMs
    this.#timer = leftMs > 0 ? setTimeout(this.#onTime, Math.ceil(leftMs)) : undefined
    if (leftMs <= 0) this.#give(timedOut(this.#subject, this.#timeoutMs))
  }

  #give(error: unknown): void {
    this.#turn.abort(error)
    this.#reject?.(error)
  }
}

/** One handler's part of a batch's time. */
export class Turn {
  #startedAt = performance.now()
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

  /** The handler is over. What the server takes for its end is not its time. */
  end(): void {
    this.#endedAt ??= performance.now()
  }

  abort(reason: unknown): void {
    this.#controller ??= new AbortController()
    this.#controller.abort(reason)
  }
}

/** What the user has to end in time. */
export type LateSubject = 'handler' | 'delivery'

function timedOut(subject: LateSubject, timeoutMs: number): SluiceError {
  return new SluiceError(
    'HANDLER_TIMEOUT',
    subject === 'handler'
      ? `The handler: expected to end within ${timeoutMs} ms, received no end. Raise the pipeline's timeout, or pass the signal on`
      : `The delivery: expected to be settled within ${timeoutMs} ms, received no settlement. Settle it: delivery.ack(). Or raise the timeout of deliveries()`,
  )
}
