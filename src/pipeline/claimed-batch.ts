import type { ClaimedRow } from '../table/claim.ts'
import type { BatchConnection } from './batch-connection.ts'
import type { Look } from './claimer.ts'

/** A claimed batch, to the one who handles it. */
export interface ClaimedBatch {
  readonly connection: BatchConnection
  readonly look: Look
  /** Aborts when nothing can come of the batch any more. */
  readonly signal: AbortSignal
}

/** A batch in the hands of its consumer, and in the transaction in which it was claimed. */
export interface ConsumedBatch {
  /** Runs the handlers. */
  run(): Promise<void>
  /** Sends the settlement; its answers may be awaited after COMMIT has been sent. */
  write(): Promise<void>
  committed(): void
  /** The transaction is lost: nothing of it holds. */
  lost(): Promise<void>
  /** The rows that it has not settled. */
  readonly untouched: readonly ClaimedRow[]
}
