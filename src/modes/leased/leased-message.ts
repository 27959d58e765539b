import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import type { SluiceError } from '../../errors.ts'
import { leaseLost } from '../../errors.ts'
import type { LeasedId } from '../../table/settle/settle-leased.ts'

/** The lease of a message. */
export interface LeaseInHand {
  readonly lease: string
  readonly batchId: number
  /** Of a message that has no time of its own. */
  readonly ms: number
  /** When its claim was sent, on the clock of `performance`. */
  readonly claimedAtMs: number
  /** When its claim was answered, by the database's clock, in microseconds since 1970. */
  readonly claimedUs: number
}

/** A message in hand under a lease. */
export class LeasedMessage implements LeasedId {
  /** Another one when evidence is known of it, before its handler begins. */
  message: DeliveredMessage
  readonly lease: string
  readonly batchId: number
  readonly claimedUs: number
  /** For how long a claim or a renewal makes it last: its own time, or its pipeline's. */
  readonly leaseMs: number
  #lost: SluiceError | undefined
  #onLost: ((reason: SluiceError) => void) | undefined
  #onCancelled: (() => void) | undefined
  /** Somebody has said that it is cancelled. */
  cancelAsked = false
  readonly #claimedAtMs: number
  #renewedAtMs: number
  /** A transaction of its handler has its row locked: nobody can take it, and a renewal would wait for that. */
  inTransaction = false
  /** Its handler has settled it together with its effects. */
  committed = false
  #over = false
  /** Made when somebody waits for it: of nearly all messages nobody does. */
  #ended: PromiseWithResolvers<void> | undefined

  constructor(message: DeliveredMessage, { lease, batchId, ms, claimedAtMs, claimedUs }: LeaseInHand) {
    this.message = message
    this.lease = lease
    this.batchId = batchId
    this.claimedUs = claimedUs
    this.leaseMs = message.row.options?.leaseMs ?? ms
    this.#claimedAtMs = claimedAtMs
    this.#renewedAtMs = claimedAtMs
  }

  get id(): string {
    return this.message.id
  }

  /** How long ago its claim was sent. */
  get ageMs(): number {
    return performance.now() - this.#claimedAtMs
  }

  /** When the lease ends if it is not renewed, by this process's clock: a little too early. */
  get endsAtMs(): number {
    return this.#renewedAtMs + this.leaseMs
  }

  /** By this process's clock nobody has to respect it any more. */
  get hasRunOut(): boolean {
    return performance.now() >= this.endsAtMs
  }

  /** Resolves when it is settled or given back, or its loss is known. */
  get ended(): Promise<void> {
    if (this.#over) return Promise.resolve()
    this.#ended ??= Promise.withResolvers()
    return this.#ended.promise
  }

  /** Half of the lease has gone by, and it may be renewed. */
  isOld(nowMs: number): boolean {
    return (
      !this.#over && this.lost === undefined && !this.inTransaction && nowMs - this.#renewedAtMs >= this.leaseMs / 2
    )
  }

  /** Why nothing can come of it any more. */
  get lost(): SluiceError | undefined {
    return this.#lost
  }

  /** Who hears of it when the lease is lost. A signal for each message would be most of what it costs to handle it. */
  whenLost(hear: (reason: SluiceError) => void): void {
    if (this.#lost === undefined) this.#onLost = hear
    else hear(this.#lost)
  }

  /** Who hears of it when the message is cancelled, and still ours. */
  whenCancelled(hear: () => void): void {
    this.#onCancelled = hear
  }

  /** It was to be cancelled while its row was locked: its handler ends, and it is removed. */
  cancel(): void {
    if (!this.#over && !this.committed && !this.inTransaction && this.#lost === undefined) this.#onCancelled?.()
  }

  /** @param sentAtMs when the renewal was sent */
  renewed(sentAtMs: number): void {
    this.#renewedAtMs = Math.max(this.#renewedAtMs, sentAtMs)
  }

  /** Somebody else may have it. A message that is settled loses nothing, nor one whose row its handler has locked. */
  lose(): void {
    if (this.#over || this.committed || this.inTransaction || this.#lost !== undefined) return
    this.#lost = leaseLost(this.message.queue, this.id, this.cancelAsked)
    this.#onLost?.(this.#lost)
  }

  /** It is settled or given back, or its loss is known. */
  end(): void {
    this.#over = true
    this.#ended?.resolve()
  }
}
