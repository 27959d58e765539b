import type { Duration } from '../basics/time/duration.ts'
import { expected } from '../errors.ts'
import type { HandlerKind, LeasedContext, MessageByKind } from '../handle/handler.ts'
import { toOutcome } from '../handle/to-outcome.ts'
import type { HandlerTransaction } from '../handle/transaction/handler-transaction.ts'
import { WatchedPromise } from '../handle/transaction/watched-promise.ts'
import { ackBy, deadLetterBy, type Outcome, type RetryLaterOptions, retryBy, snoozeBy } from '../message.ts'

/** How a delivery ended: by an outcome, or, if it failed, with the error for the retry policy. */
export type DeliveryEnd = { readonly outcome: Outcome } | { readonly error: unknown }

/** What a delivery has only in a transaction. */
type IfTransactional<In extends HandlerKind, Value> = In extends 'leased' ? undefined : Value
/** What a delivery has only in leased mode. */
type IfLeased<In extends HandlerKind, Value> = In extends 'leased' ? Value : undefined

/** What a handler of deliveries gets beside the message, by their mode, or of a group. */
export interface DeliveryContextByKind {
  readonly transactional: { readonly tx: HandlerTransaction; readonly signal: AbortSignal }
  readonly leased: LeasedContext
  readonly group: { readonly tx: HandlerTransaction; readonly signal: AbortSignal }
}

/**
 * A claimed message that the subscriber settles: until then its row stays locked or leased, and it counts toward the
 * demand. Each verb returns whether it settled the delivery: false if something else did before, such as
 * the pipeline's timeout or its stop.
 */
export class Delivery<Payload = unknown, In extends HandlerKind = 'transactional'> {
  /** The message, as a handler gets it. */
  readonly message: MessageByKind<Payload>[In]
  /** The transaction in which the message will be removed; in leased mode there is none. */
  readonly tx: IfTransactional<In, HandlerTransaction>
  /**
   * Aborts when the delivery has taken too long, the pipeline stops, or the connection or the lease is lost.
   * Its `reason` is a SluiceError.
   */
  readonly signal: AbortSignal
  /**
   * In leased mode: the same through retries and redrive, and another for each message of a database. Give it to
   * services that take one.
   */
  readonly idempotencyKey: IfLeased<In, string>
  readonly #lease: LeasedContext | undefined
  readonly #settle: (settled: DeliveryEnd) => boolean

  constructor(
    message: MessageByKind<Payload>[In],
    context: DeliveryContextByKind[In],
    settle: (settled: DeliveryEnd) => boolean,
  ) {
    const { tx, signal }: { readonly tx?: HandlerTransaction; readonly signal: AbortSignal } = context
    this.message = message
    this.tx = tx as IfTransactional<In, HandlerTransaction>
    this.signal = signal
    this.#lease = 'extend' in context ? context : undefined
    this.idempotencyKey = this.#lease?.idempotencyKey as IfLeased<In, string>
    this.#settle = settle
  }

  /** In leased mode: when the lease ends if it is not renewed; it is renewed until the delivery is settled. */
  get leaseUntil(): IfLeased<In, Date> {
    return this.#lease?.leaseUntil as IfLeased<In, Date>
  }

  /**
   * In leased mode: renews the lease now, and gives the delivery its whole `timeout` again.
   *
   * @throws SluiceError LEASE_LOST
   */
  extend(this: Delivery<Payload, 'leased'>): Promise<void> {
    return this.#lease?.extend() ?? this.#unleased('extend')
  }

  /**
   * In leased mode: runs `work` in a short transaction that also removes the message, if it still has its lease, and so
   * settles the delivery. What is written through `tx` takes effect exactly once.
   *
   * @throws SluiceError LEASE_LOST, and what `work` throws: then nothing of it holds, and the delivery is to be settled;
   * COMMIT_FAILED: whether it holds is unknown, because the answer to the COMMIT was lost
   */
  transaction<T>(this: Delivery<Payload, 'leased'>, work: (tx: HandlerTransaction) => T | Promise<T>): Promise<T> {
    if (this.#lease === undefined) return this.#unleased('transaction')
    // Handed on as it is: it knows whether the subscriber has awaited it.
    const given = this.#lease.transaction(work)
    WatchedPromise.whenFulfilled(given, () => this.#settle({ outcome: { kind: 'ack' } }))
    return given
  }

  /** Handled: the message is removed when its batch commits. `dedupeFor`: as in `ack()`. */
  ack(options?: { readonly dedupeFor?: Duration }): boolean {
    return this.#settle({ outcome: ackBy('delivery.ack', options) })
  }

  /** Failed: try again, counting an attempt. The options are those of `retryLater()`. */
  retry(options?: RetryLaterOptions): boolean {
    return this.#settle({ outcome: retryBy('delivery.retry', options) })
  }

  /** Not now: deliver again later without counting an attempt. What was written through `tx` is kept. */
  snooze(options: { readonly after: Duration }): boolean {
    return this.#settle({ outcome: snoozeBy('delivery.snooze', options) })
  }

  /** Give up: move the message to the dead letters. What was written through `tx` is rolled back. */
  deadLetter(reason: string, error?: unknown): boolean {
    return this.#settle({ outcome: deadLetterBy('delivery.deadLetter', reason, error) })
  }

  /** Failed with an error: retry as the policy says. */
  fail(error: unknown): boolean {
    return this.#settle({ error })
  }

  /** Settles by an outcome as a handler returns it. @throws SluiceError OPTION_INVALID, and it is not settled then. */
  settle(outcome: Outcome): boolean {
    return this.#settle({ outcome: toOutcome(outcome, 'delivery.settle', 'As in delivery.settle(ack())') })
  }

  async #unleased(call: 'extend' | 'transaction'): Promise<never> {
    const remedy = 'In transactional mode its transaction is delivery.tx'
    throw expected('OPTION_INVALID', `delivery.${call}`, 'a delivery of leased mode', 'transactional', remedy)
  }

  toString(): string {
    return `Delivery of message ${this.message.id} in ${this.message.queue}`
  }
}
