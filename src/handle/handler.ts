import { expected, SluiceError, STOPPED } from '../errors.ts'
import type { EventMessage, Message, Outcome } from '../message.ts'
import type { Dedupe, OptionsWith } from '../message-options.ts'
import type { Mode } from '../plan/options.ts'
import type { InputOf, QueueDefinitions, QueueName } from '../queues.ts'
import type { Enqueued } from '../table/enqueue/insert-deduped.ts'
import type { HandlerTransaction } from './transaction/handler-transaction.ts'

/** Enqueues in the handler's transaction: the message exists if and only if the handler's batch commits. */
export type EnqueueInTransaction<Definitions extends QueueDefinitions | undefined = undefined> = <
  Name extends QueueName<Definitions>,
  Key extends Dedupe | undefined = undefined,
>(
  queue: Name,
  payload: InputOf<Definitions, Name>,
  options?: OptionsWith<Key>,
) => Promise<Enqueued<Key>>

/** What a handler gets beside the message in every mode. */
export interface CommonContext {
  /**
   * Aborts when the handler has taken too long, the pipeline stops, or the batch's connection is lost. Its
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
   * @throws SluiceError LEASE_LOST, and what `work` throws: then nothing of it holds; COMMIT_FAILED: whether it holds is
   * unknown, because the answer to the COMMIT was lost
   *
   * @example
   * const receipt = await charge(payload, { idempotencyKey })
   * await transaction((tx) => tx.query('INSERT INTO receipt VALUES ($1)', [receipt.id]))
   */
  transaction<T>(work: (tx: HandlerTransaction) => T | Promise<T>): Promise<T>
}

/** What a handler works for: a queue in one of its modes, or a group of a stream. */
export type HandlerKind = Mode | 'group'

/** What a handler gets beside the message, by its kind: `tx` exists only where a transaction is open. */
export interface ContextByKind<Definitions extends QueueDefinitions | undefined = undefined> {
  readonly transactional: HandlerContext<Definitions>
  readonly leased: LeasedContext
  readonly group: HandlerContext<Definitions>
}

/** What a handler gets: a message, or an event of a stream. */
export interface MessageByKind<Payload> {
  readonly transactional: Message<Payload>
  readonly leased: Message<Payload>
  readonly group: EventMessage<Payload>
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
  In extends HandlerKind = 'transactional',
> = (
  message: MessageByKind<Payload>[In],
  context: ContextByKind<Definitions>[In],
) => Outcome | void | Promise<Outcome | void>

/** What a batch handler gets beside the messages. */
export type BatchHandlerContext<
  Definitions extends QueueDefinitions | undefined = undefined,
  In extends HandlerKind = 'transactional',
> = Omit<ContextByKind<Definitions>[In], 'attempt' | 'idempotencyKey'>

/**
 * Handles a whole batch in one transaction. Return nothing when all are done, or one outcome per message, in their
 * order; what was written is kept then. If it throws, its writes are rolled back, and it is called once per message, in
 * the same transaction but each with a savepoint of its own, so that only the one to blame fails.
 */
export type BatchHandler<
  Payload = unknown,
  Definitions extends QueueDefinitions | undefined = undefined,
  In extends HandlerKind = 'transactional',
> = (
  messages: readonly MessageByKind<Payload>[In][],
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
