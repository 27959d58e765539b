import type { TransactionalPlan } from '../plan/options.ts'
import { type ClaimedRow, type ClaimedRows, claim, type PriorityFloor } from '../table/claim/claim.ts'
import { claimApart } from '../table/claim/claim-apart.ts'
import {
  claimFreeSlots,
  claimSlots,
  claimWholeQueue,
  type OrderedClaim,
  WHOLE_QUEUE_SLOT,
} from '../table/claim/claim-ordered.ts'
import { KEYS_PER_SLOT } from '../table/claim/claim-slots.ts'
import type { Execute } from '../table/statement.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import { type ClaimAnswer, type ClaimRequest, type MessageKind, mayHaveMore } from './claim-answer.ts'
import { Floors } from './floors.ts'
import { KnownServer } from './known-server.ts'
import { SlotShare } from './slot-share.ts'
import { Spread } from './spread.ts'

/** The queue, and the number and size of its batches. `ordered`: messages without a key are one sequence. */
export type ClaimedQueue = Pick<TransactionalPlan, 'queue' | 'batchSize' | 'concurrency' | 'ordered' | 'slotsPerClaim'>

/** Sends one claim at a time from the floors, and moves the floors by its answer. */
export class FlooredClaims {
  readonly floors: Floors
  readonly spread: Spread
  readonly #plan: ClaimedQueue
  readonly #server: KnownServer
  readonly #share: SlotShare
  #most: number
  /** The database's clock in the last answer, and ours when it came. */
  #clock = { nowUs: 0, atMs: 0 }

  /** @param onForgotten the server may be another one, so what was learned no longer holds */
  constructor(plan: ClaimedQueue, random: () => number, onForgotten: () => void) {
    this.#plan = plan
    this.#most = plan.batchSize
    this.#server = new KnownServer(() => {
      this.floors.restart()
      onForgotten()
    })
    this.floors = new Floors(undefined, Math.floor(random() * WHOLE_QUEUE_SLOT))
    this.spread = new Spread(plan.concurrency, plan.batchSize, random)
    this.#share = new SlotShare(plan.slotsPerClaim ?? 1)
  }

  /**
   * After a batch that was handled only in part, claims take one message, then two, then four, up to a batch: locking a
   * thousand rows to handle one takes longer than handling it.
   */
  narrow(): void {
    this.#most = 1
  }

  /** A batch could be handled as a whole. */
  widen(): void {
    this.#most = Math.min(this.#most * 2, this.#plan.batchSize)
  }

  /** Before the first claim in a transaction. */
  meet({ client }: BatchConnection): void {
    this.#server.meet(client)
  }

  /** @param bottom begins at the bottom, and not at the floors */
  async claim(
    { execute }: BatchConnection,
    terms: ClaimRequest,
    kind: MessageKind,
    bottom: boolean,
  ): Promise<ClaimAnswer> {
    const most = this.#limitOf(terms)
    const share = kind === 'keyed' ? this.#shareOf(terms) : most
    const { lowered, anyHeld } = this.floors
    const known = this.#server.memory
    const sentAtMs = performance.now()
    const skipped = bottom || !this.spread.wide ? 0 : this.spread.next()
    const taken: ClaimedRows & Partial<OrderedClaim> = await (kind === 'keyed'
      ? this.#claimSlots(execute, terms, bottom, share)
      : this.#claimUnkeyed(execute, terms, bottom, skipped))
    const { nowUs, transaction, memory, evidence, rows } = taken
    this.#clock = { nowUs: taken.nowUs, atMs: performance.now() }
    const answer = { kind, nowUs, transaction, sentAtMs, answeredAtMs: this.#clock.atMs, evidence, nextDueMs: null }
    if (!this.#server.answered(memory, known)) return { ...answer, rows: [], full: false, partial: true, void: true }
    const full = rows.length >= most
    const hasMore = kind === 'keyed' && this.#share.took(rows, most, share)
    let again = false
    if (isOrdered(taken)) {
      again = this.floors.leftOut.learn(taken.missed, rows.length)
      if (lowered === this.floors.lowered) this.floors.observed(taken)
    } else if (skipped === 0) this.floors.claimed(rows, { bottom, full, lowered })
    return { ...answer, rows, full: full || hasMore, partial: again || mayHaveMore(taken, anyHeld), void: false }
  }

  /** Rows that were claimed and not settled: they are free again. */
  release(rows: readonly ClaimedRow[]): void {
    if (rows.length > 0) this.floors.lower(rows)
  }

  #claimUnkeyed(execute: Execute, terms: ClaimRequest, bottom: boolean, skipped: number): Promise<ClaimedRows> {
    const { queue, ordered } = this.#plan
    const { lease } = terms
    const limit = this.#limitOf(terms)
    if (ordered) return claimWholeQueue(execute, queue, this.floors.wholeQueue(bottom), limit)
    const floors = this.#priorityFloors(bottom)
    // A sweep skips nothing: the transaction id on a row can be that of several lockers, and then identifies none.
    return this.spread.wide && !bottom
      ? claimApart(execute, queue, floors, limit, skipped, lease)
      : claim(execute, queue, floors, limit, lease)
  }

  #claimSlots(execute: Execute, terms: ClaimRequest, bottom: boolean, share: number): Promise<OrderedClaim> {
    const { queue } = this.#plan
    const { lease } = terms
    const limit = this.#limitOf(terms)
    const { anyHeld, leftOut } = this.floors
    // The next claim begins behind those that this one takes from. A slot that it takes only a part of comes first then.
    const slots = this.floors.slots(bottom, Math.max(1, Math.floor(limit / (lease ? KEYS_PER_SLOT : share))))
    return anyHeld
      ? claimSlots(execute, queue, slots, limit, this.floors.passed(), lease, leftOut.keys, share)
      : claimFreeSlots(execute, queue, slots, limit, lease, share)
  }

  /** One under limits is given back if it takes less than it may: it takes what it can of each slot. */
  #shareOf(terms: ClaimRequest): number {
    const limit = this.#limitOf(terms)
    return terms.most === undefined ? this.#share.of(limit, this.floors.slotCount, this.spread.inFlight) : limit
  }

  #limitOf({ most = this.#most }: ClaimRequest): number {
    return Math.min(this.#most, most)
  }

  /**
   * By the database's clock, as the last claim returned it. Counted from its answer, this is too early, which is
   * harmless: a floor that is too low costs a longer walk. Counted from when the claim was sent, it would be too late:
   * the server reads its clock after the COMMIT before the claim, which can take longer than claims look back.
   */
  #priorityFloors(bottom: boolean): readonly PriorityFloor[] {
    if (bottom) return this.floors.priorities('bottom')
    return this.floors.priorities(Math.floor(this.#clock.nowUs + (performance.now() - this.#clock.atMs) * 1_000))
  }
}

function isOrdered(taken: ClaimedRows & Partial<OrderedClaim>): taken is OrderedClaim {
  return taken.firstLive !== undefined
}
