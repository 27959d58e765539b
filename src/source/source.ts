import type { Admission, Admitted, AdmittedDemand, Nothing } from '../claim/admission.ts'
import type { ClaimAnswer, SentClaim } from '../claim/claim-answer.ts'
import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Settlement } from '../settle/settlement.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'
import type { Execute } from '../table/statement.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import type { ClockAnswer } from './rules-of.ts'

/**
 * Where the messages of a pipeline come from: rows that a transaction locks, rows that it leases, or the log of a
 * stream with the group's queue. The loops above know nothing of slots, floors, limits or groups.
 */
export interface Source<Sent = SentClaim> {
  /** Asks for leave to claim: the queue may have limits. @param most the most messages that the round has room for */
  admit(demand: AdmittedDemand, most: number): Promise<Admission | Nothing>
  /** Sends a claim in the transaction that has just been begun. */
  send(connection: BatchConnection, terms?: Admitted): Sent
  /** The answer to a sent claim. Where that took nothing, it has looked wherever else something may be. */
  take(connection: BatchConnection, sent: Sent): Promise<ClaimAnswer>
  /** Drops a sent claim: what it locked is free again. */
  unsend(sent: Sent | undefined): void
  /** Rows that were claimed and not settled: they are free again. */
  release(rows: readonly ClaimedRow[]): void
}

/** A source whose claim, handlers and settlement share one transaction. */
export interface TransactionalSource extends Source {
  /** From now on a round claims once, also one that was admitted for more: see {@link Admission.isSingle}. */
  readonly isSingle: boolean
  /** Another name that wakes a sleeping consumer, beside its queue. */
  readonly wokenBy: string | undefined
  /** A batch could be handled only in part: the next ones are small. */
  narrow(): void
  /** A batch could be handled as a whole. */
  widen(): void
  /** So many batches may be in flight from now on. */
  resize(concurrency: number): void
  /** For the decisions about what a claim has answered. */
  settlement(answer: ClockAnswer): Settlement
  /**
   * Claims a message again whose transaction was lost, to settle it in another one. Undefined: another transaction has
   * it, or whoever claims it next settles its try.
   */
  claimAgain(execute: Execute, message: DeliveredMessage): Promise<Settlement | undefined>
}
