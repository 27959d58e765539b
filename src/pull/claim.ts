import type { Duration } from '../basics/time/duration.ts'
import { ack, type Message, type Outcome } from '../message.ts'
import type { RefusalReason } from '../table/pull/settle-claim.ts'

/** What became of messages that were to be settled. */
export interface ClaimSettlement {
  /** The ids of those that were settled. */
  readonly settled: readonly string[]
  /** The others: they are gone, not claimed, or in another claim. */
  readonly refused: readonly { readonly id: string; readonly reason: RefusalReason }[]
}

/** What a claim can be asked for by its number. */
export interface ClaimKeeper {
  renew(queue: string, id: string, lease?: Duration, grace?: Duration): Promise<Date>
  settle(queue: string, id: string, which: unknown, outcome?: Outcome): Promise<ClaimSettlement>
  release(queue: string, id: string): Promise<number>
}

/**
 * Messages that are yours until `expiresAt`: settle each, or release them. What is neither settled nor released by then
 * is available to others, with a failed attempt counted. All of this works also after `sluice.stop()`.
 *
 * @example
 * const claim = await sluice.claim('emails', { limit: 10, lease: '1m' })
 * try {
 *   for (const message of claim?.messages ?? []) {
 *     await send(message.payload)
 *     await claim?.settle(message)
 *   }
 * } finally {
 *   await claim?.release()
 * }
 */
export class Claim<Payload = unknown> implements AsyncDisposable {
  /** Its number: with it and the queue, any process can settle the messages. */
  readonly id: string
  /** The name of the queue. */
  readonly queue: string
  /** Its messages, as a handler gets them, those that are settled as well. */
  readonly messages: readonly Message<Payload>[]
  readonly #keeper: ClaimKeeper
  readonly #left: Set<string>
  #expiresAt: Date

  /** @param left the ids of all that it has: some may not fit their schema, and are not among its messages */
  constructor(
    keeper: ClaimKeeper,
    queue: string,
    id: string,
    expiresAt: Date,
    messages: readonly Message<Payload>[],
    left: readonly string[] = messages.map((message) => message.id),
  ) {
    this.id = id
    this.queue = queue
    this.messages = messages
    this.#keeper = keeper
    this.#expiresAt = expiresAt
    this.#left = new Set(left)
  }

  /** When it ends unless it is renewed, by the database's clock. */
  get expiresAt(): Date {
    return this.#expiresAt
  }

  /**
   * Makes it last for `lease` from now, and its messages live until `grace` after that; both by default as given before.
   *
   * @returns when it ends then.
   * @throws SluiceError CLAIM_OVER, CLAIM_UNKNOWN, OPTION_INVALID, PRIVILEGE_MISSING, UNREACHABLE, COMMIT_FAILED
   */
  async renew(lease?: Duration, grace?: Duration): Promise<Date> {
    this.#expiresAt = await this.#keeper.renew(this.queue, this.id, lease, grace)
    return this.#expiresAt
  }

  /**
   * Settles one message or several, all with the same outcome: `ack()` if none is given, `retryLater()`, `snooze()` or
   * `deadLetter()`. Each is settled only while it is in this claim.
   *
   * @param which messages, or their ids.
   * @throws SluiceError as {@link renew}
   *
   * @example await claim.settle(message, retryLater({ after: '5m' }))
   */
  async settle(
    which: Message<Payload> | string | readonly (Message<Payload> | string)[],
    outcome: Outcome = ack(),
  ): Promise<ClaimSettlement> {
    const settlement = await this.#keeper.settle(this.queue, this.id, which, outcome)
    for (const id of settlement.settled) this.#left.delete(id)
    return settlement
  }

  /**
   * Releases the unsettled messages in their old order, without counting an attempt. If the claim is over already, nothing
   * happens.
   *
   * @returns how many messages.
   * @throws SluiceError PRIVILEGE_MISSING, UNREACHABLE, COMMIT_FAILED
   */
  async release(): Promise<number> {
    if (this.#left.size === 0) return 0
    const released = await this.#keeper.release(this.queue, this.id)
    this.#left.clear()
    return released
  }

  /** As {@link release}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}
