import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import type { SluiceError } from '../../errors.ts'
import { leaseLost } from '../../errors.ts'
import type { LeasedId } from '../../table/settle/settle-leased.ts'

/** The lease of a message. */
export interface LeaseInHand {
  readonly lease: string
  readonly batchId: number
  readonly ms: number
  /** When its claim was sent, on the clock of `performance`. */
  readonly claimedAtMs: number
}

/** A message in hand under a lease. */
export class LeasedMessage implements LeasedId {
  readonly message: DeliveredMessage
  readonly lease: string
  readonly batchId: number
  readonly #leaseMs: number
  readonly #loss = new AbortController()
  readonly #claimedAtMs: number
  #renewedAtMs: number
  /** A transaction of its handler has its row locked: nobody can take it, and a renewal would wait for that. */
  inTransaction = false
  /** Its handler has settled it together with its effects. */
  committed = false
  #over = false
  readonly #ended = Promise.withResolvers<void>()

  constructor(message: DeliveredMessage, { lease, batchId, ms, claimedAtMs }: LeaseInHand) {
    this.message = message
    this.lease = lease
    this.batchId = batchId
    this.#leaseMs = ms
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
    return this.#renewedAtMs + this.#leaseMs
  }

  /** By this process's clock nobody has to respect it any more. */
  get hasRunOut(): boolean {
    return performance.now() >= this.endsAtMs
  }

  /** Resolves when it is settled or given back, or its loss is known. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  /** Half of the lease has gone by, and it may be renewed. */
  isOld(nowMs: number): boolean {
    return (
      !this.#over && this.lost === undefined && !this.inTransaction && nowMs - this.#renewedAtMs >= this.#leaseMs / 2
    )
  }

  /** Aborts when the lease is lost. */
  get signal(): AbortSignal {
    return this.#loss.signal
  }

  /** Why nothing can come of it any more. */
  get lost(): SluiceError | undefined {
    return this.#loss.signal.aborted ? this.#loss.signal.reason : undefined
  }

  /** @param sentAtMs when the renewal was sent */
  renewed(sentAtMs: number): void {
    this.#renewedAtMs = Math.max(this.#renewedAtMs, sentAtMs)
  }

  /** Somebody else may have it. A message that is settled loses nothing, nor one whose row its handler has locked. */
  lose(): void {
    if (!this.#over && !this.committed && !this.inTransaction) this.#loss.abort(leaseLost(this.message.queue, this.id))
  }

  /** It is settled or given back, or its loss is known. */
  end(): void {
    this.#over = true
    this.#ended.resolve()
  }
}
