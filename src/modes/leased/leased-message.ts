import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import type { SluiceError } from '../../errors.ts'
import { leaseLost } from '../../errors.ts'
import type { LeasedId } from '../../table/settle/fence.ts'

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

/**
 * Whether this process may still settle a message. `locked`: a transaction of its handler has locked the row, so no claim
 * takes it, and a renewal would wait for that. `committed`: that transaction has settled it together with its effects.
 * `lost`: another process may have it. From `ours` it goes to each of the others, and from `locked` back or to `committed`.
 */
type Hold = 'ours' | 'locked' | 'committed' | 'lost'

/** A message in flight under a lease of this process. */
export class LeasedMessage implements LeasedId {
  /** Another one when evidence is known of it, before its handler begins. */
  message: DeliveredMessage
  readonly lease: string
  readonly batchId: number
  readonly claimedUs: number
  /** For how long a claim or a renewal makes it last: its own time, or its pipeline's. */
  readonly leaseMs: number
  #hold: Hold = 'ours'
  #lost: SluiceError | undefined
  #onLost: ((reason: SluiceError) => void) | undefined
  #cancelled = false
  #onCancelled: (() => void) | undefined
  /** A notification or the poll has said that it is cancelled. */
  cancelAsked = false
  readonly #claimedAtMs: number
  #renewedAtMs: number
  #over = false
  /** Made when it is waited for, which few messages need. */
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

  /** By this process's clock it has expired. */
  get hasRunOut(): boolean {
    return performance.now() >= this.endsAtMs
  }

  /** Resolves when it is settled or given back, or its loss is known. */
  get ended(): Promise<void> {
    if (this.#over) return Promise.resolve()
    this.#ended ??= Promise.withResolvers()
    return this.#ended.promise
  }

  /** Half of the lease has gone by, and it may be renewed: not while its handler's transaction has the row, or after that. */
  isOld(nowMs: number): boolean {
    return !this.#over && this.#hold === 'ours' && nowMs - this.#renewedAtMs >= this.leaseMs / 2
  }

  get isCancelled(): boolean {
    return this.#cancelled
  }

  get isLocked(): boolean {
    return this.#hold === 'locked'
  }

  get isCommitted(): boolean {
    return this.#hold === 'committed'
  }

  /** A transaction of its handler has locked its row. */
  lock(): void {
    this.#hold = 'locked'
  }

  /** That transaction has committed, and has settled it. */
  commit(): void {
    this.#hold = 'committed'
  }

  /** That transaction is over. */
  unlock(): void {
    if (this.isLocked) this.#hold = 'ours'
  }

  /** Why nothing can come of it any more. */
  get lost(): SluiceError | undefined {
    return this.#lost
  }

  /** Calls `hear` when the lease is lost, also if it is already. A signal for each message would be most of what it costs. */
  whenLost(hear: (reason: SluiceError) => void): void {
    if (this.#lost === undefined) this.#onLost = hear
    else hear(this.#lost)
  }

  /** Calls `hear` when the message is cancelled while it is ours, also if it is already: its handler may not run yet. */
  whenCancelled(hear: () => void): void {
    this.#onCancelled = hear
    if (this.#cancelled) hear()
  }

  /** It was to be cancelled while its row was locked: its handler ends, and it is removed. */
  cancel(): void {
    if (this.#over || this.#hold !== 'ours') return
    this.#cancelled = true
    this.#onCancelled?.()
  }

  /** @param sentAtMs when the renewal was sent */
  renewed(sentAtMs: number): void {
    this.#renewedAtMs = Math.max(this.#renewedAtMs, sentAtMs)
  }

  /** Another claim may have it. A settled message loses nothing, nor one whose row its handler has locked. */
  lose(): void {
    if (this.#over || this.#hold !== 'ours') return
    this.#hold = 'lost'
    this.#lost = leaseLost(this.message.queue, this.id, this.cancelAsked)
    this.#onLost?.(this.#lost)
  }

  /** It is settled or given back, or its loss is known. */
  end(): void {
    this.#over = true
    this.#ended?.resolve()
  }
}
