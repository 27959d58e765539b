import type { Duration } from '../basics/duration.ts'
import { toOutcome } from '../handle/handler.ts'
import type { HandlerTransaction } from '../handle/transaction/message-transaction.ts'
import { deadLetterBy, type Message, type Outcome, retryBy, snoozeBy } from '../message.ts'
import type { Mode } from '../plan/options.ts'

/** How a delivery ended: by an outcome, or, if it failed, with the error for the retry policy. */
export type Settled = { readonly outcome: Outcome } | { readonly error: unknown }

/** The transaction that a mode lends to whoever handles a message. */
export type TxOf<In extends Mode> = In extends 'transactional' ? HandlerTransaction : undefined

/**
 * A claimed message in the hands of a subscriber, who settles it: its row stays locked, and its place in the demand
 * taken, until then. Each verb returns whether it settled the delivery: false if something else did before, such as
 * the pipeline's timeout or its stop.
 */
export class Delivery<Payload = unknown, In extends Mode = 'transactional'> {
  /** The message, as a handler gets it. */
  readonly message: Message<Payload>
  /** The transaction in which the message will be removed; in leased mode there is none. */
  readonly tx: TxOf<In>
  /**
   * Aborts when the delivery has taken too long, the pipeline is told to stop, or the connection is lost. Its `reason`
   * is a SluiceError.
   */
  readonly signal: AbortSignal
  readonly #settle: (settled: Settled) => boolean

  constructor(
    message: Message<Payload>,
    context: { readonly tx: TxOf<In>; readonly signal: AbortSignal },
    settle: (settled: Settled) => boolean,
  ) {
    this.message = message
    this.tx = context.tx
    this.signal = context.signal
    this.#settle = settle
  }

  /** Handled: the message is removed when its batch commits. */
  ack(): boolean {
    return this.#settle({ outcome: { kind: 'ack' } })
  }

  /** Failed: try again, counting an attempt. Without `after` the pipeline's retry policy says when. */
  retry(options?: { readonly after?: Duration; readonly error?: unknown }): boolean {
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

  toString(): string {
    return `Delivery of message ${this.message.id} in ${this.message.queue}`
  }
}
