import type { Duration } from '../basics/duration.ts'
import { ack, type Message, type Outcome } from '../message.ts'
import type { ClaimSettlement, ClaimStore } from './claim-store.ts'

/**
 * Messages that are yours until `expiresAt`: settle each, or release them. What is neither settled nor released by then
 * goes to somebody else, with a failed attempt counted. All of this works also after `sluice.stop()`.
 *
 * @example
 * await using claim = await sluice.claim('emails', { limit: 10, ttl: '1m' })
 * for (const message of claim?.messages ?? []) {
 *   await send(message.payload)
 *   await claim?.settle(message)
 * }
 */
export class Claim<Payload = unknown> implements AsyncDisposable {
  /** Its number: with it and the queue, any process can settle the messages. */
  readonly id: string
  /** The name of the queue. */
  readonly queue: string
  /** Its messages, as a handler gets them, those that are settled as well. */
  readonly messages: readonly Message<Payload>[]
  readonly #store: ClaimStore
  readonly #left: Set<string>
  #expiresAt: Date

  constructor(store: ClaimStore, queue: string, id: string, expiresAt: Date, messages: readonly Message<Payload>[]) {
    this.id = id
    this.queue = queue
    this.messages = messages
    this.#store = store
    this.#expiresAt = expiresAt
    this.#left = new Set(messages.map((message) => message.id))
  }

  /** When it ends unless it is renewed, by the database's clock. */
  get expiresAt(): Date {
    return this.#expiresAt
  }

  /**
   * Makes it last for `ttl` from now, by default as long as it was given before.
   *
   * @returns when it ends then.
   * @throws SluiceError CLAIM_OVER, CLAIM_UNKNOWN, OPTION_INVALID, PRIVILEGE_MISSING, UNREACHABLE, COMMIT_FAILED
   */
  async renew(ttl?: Duration): Promise<Date> {
    this.#expiresAt = await this.#store.renew(this.queue, this.id, ttl)
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
    const settlement = await this.#store.settle(this.queue, this.id, which, outcome)
    for (const id of settlement.settled) this.#left.delete(id)
    return settlement
  }

  /**
   * Gives back what is not settled, to its place and with no attempt counted. If the claim is over already, nothing
   * happens.
   *
   * @returns how many messages.
   * @throws SluiceError PRIVILEGE_MISSING, UNREACHABLE, COMMIT_FAILED
   */
  async release(): Promise<number> {
    if (this.#left.size === 0) return 0
    const released = await this.#store.release(this.queue, this.id)
    this.#left.clear()
    return released
  }

  /** As {@link release}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}
