import type { Look } from '../claim/look.ts'
import type { ClaimedRow } from '../table/claim.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'

/**
 * What the loss of a transaction was held to be: a failed attempt of the one message that ran, which has been written; a
 * reason to try each of its messages in a transaction of its own; or nothing of theirs: the database or the way to it may
 * be the reason, and time is what helps.
 */
export type Blamed = 'failed attempt' | 'isolated' | 'nothing'

/** A claimed batch, to the one who handles it. */
export interface ClaimedBatch {
  readonly connection: BatchConnection
  readonly look: Look
  /** Aborts when nothing can come of the batch any more. */
  readonly signal: AbortSignal
  /** The process has nothing else in hand. */
  readonly alone: boolean
}

/** A batch in the hands of its consumer, and in the transaction in which it was claimed. */
export interface ConsumedBatch {
  /** Runs the handlers; false: not one of them, because the batch may only run while the process has nothing else in hand. */
  run(): Promise<boolean>
  /** Some of its messages need a transaction of their own, so only a part of it has been handled. */
  readonly isolated: boolean
  /** Sends the settlement; its answers may be awaited after COMMIT has been sent. */
  write(): Promise<void>
  committed(): void
  /** The batch goes back as it was. */
  gaveBack(): void
  /** The transaction is lost: nothing of it holds. */
  lost(error: unknown): Promise<Blamed>
  /** The rows that it has not settled. */
  readonly untouched: readonly ClaimedRow[]
}
