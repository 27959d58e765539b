import { DeliveredMessage } from '../../claim/delivered-message.ts'
import type { SluiceError } from '../../errors.ts'
import { leaseLost } from '../../errors.ts'
import type { ClaimedRow } from '../../table/claim/claim.ts'
import type { LeasedId } from '../../table/settle/fence.ts'

/** What the leases of one claim have in common. */
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
 * takes it, and a renewal would wait for that. `committed`: that transaction has settled it together with its effects. An
 * error: it is lost, and another process may have it. From `ours` it goes to each of the others, and from `locked` back or to
 * `committed`.
 */
type Hold = 'ours' | 'locked' | 'committed' | SluiceError

/** `asked`: a notification, the poll or a look has said that it is cancelled. `ends`: and it is still there, so its handler ends. */
type Cancel = 'no' | 'asked' | 'ends'

/** Hears what becomes of a message while its handler runs. */
export interface HearsLease {
  /** Nothing can come of the message any more. */
  lost(reason: SluiceError): void
  /** The message is cancelled while its lease is ours. */
  cancelled(leased: LeasedMessage): void
}

/** A message in flight under a lease of this process. */
export class LeasedMessage extends DeliveredMessage implements LeasedId {
  readonly #claim: LeaseInHand
  /** For how long a claim or a renewal makes it last: its own time, or its pipeline's. */
  readonly leaseMs: number
  #hold: Hold = 'ours'
  #cancel: Cancel = 'no'
  #hears: HearsLease | undefined
  /** What becomes of it is decided: its settlement is on its way. */
  isDecided = false
  #renewedAtMs: number
  #over = false
  /** Made when it is waited for, which few messages need. */
  #ended: PromiseWithResolvers<void> | undefined

  constructor(queue: string, row: ClaimedRow, claim: LeaseInHand) {
    super(queue, row)
    this.#claim = claim
    this.leaseMs = row.options?.leaseMs ?? claim.ms
    this.#renewedAtMs = claim.claimedAtMs
  }

  get lease(): string {
    return this.#claim.lease
  }

  get batchId(): number {
    return this.#claim.batchId
  }

  /** When it was claimed, by the database's clock, in microseconds since 1970. */
  get claimedUs(): number {
    return this.#claim.claimedUs
  }

  /** How long ago its claim was sent. */
  get ageMs(): number {
    return performance.now() - this.#claim.claimedAtMs
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

  /** Whoever cancelled it has asked for it, or has removed it. */
  get cancelAsked(): boolean {
    return this.#cancel !== 'no'
  }

  set cancelAsked(asked: boolean) {
    this.#cancel = asked ? 'asked' : 'no'
  }

  get isCancelled(): boolean {
    return this.#cancel === 'ends'
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
    return typeof this.#hold === 'string' ? undefined : this.#hold
  }

  /** Its handler begins. What is lost or cancelled already is heard at once: its handler may not run yet. */
  hear(hears: HearsLease): void {
    this.#hears = hears
    if (this.lost !== undefined) hears.lost(this.lost)
    if (this.isCancelled) hears.cancelled(this)
  }

  /** It was to be cancelled while its row was locked: its handler ends, and it is removed. */
  cancel(): void {
    if (this.#over || this.#hold !== 'ours') return
    this.#cancel = 'ends'
    this.#hears?.cancelled(this)
  }

  /** @param sentAtMs when the renewal was sent */
  renewed(sentAtMs: number): void {
    this.#renewedAtMs = Math.max(this.#renewedAtMs, sentAtMs)
  }

  /** Another claim may have it. A settled message loses nothing, nor one whose row its handler has locked. */
  lose(): void {
    if (this.#over || this.#hold !== 'ours') return
    const lost = leaseLost(this.queue, this.id, this.cancelAsked)
    this.#hold = lost
    this.#hears?.lost(lost)
  }

  /** It is settled or given back, or its loss is known. */
  end(): void {
    this.#over = true
    this.#ended?.resolve()
  }
}
