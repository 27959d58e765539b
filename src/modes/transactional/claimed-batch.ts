import type { ClaimAnswer } from '../../claim/claim-answer.ts'
import type { BatchConnection } from '../../transaction/batch-connection.ts'

/** A claimed batch, to the one who handles it. */
export interface ClaimedBatch {
  readonly connection: BatchConnection
  readonly claimed: ClaimAnswer
  /** Aborts when nothing can come of the batch any more. */
  readonly signal: AbortSignal
  /** The process has nothing else in flight. */
  readonly alone: boolean
  /** The round ends with it. */
  readonly isLast: boolean
}
