import type { ClaimedRow } from '../table/claim/claim.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import type { TransactionLimit } from '../transaction/transaction-settings.ts'
import type { ClaimAnswer, ClaimRequest, SentClaim } from './claim-answer.ts'

/** Leave for a round to claim. A queue without limits gives {@link UNLIMITED}, and a round never asks which of them it has. */
export interface Admission {
  /** A round under limits claims once: each claim asks anew. */
  readonly isSingle: boolean
  /** Begins the transaction that claims, and sends its first claim. */
  begin<Sent>(
    connection: BatchConnection,
    limit: TransactionLimit,
    send: (terms: Admitted) => Sent,
  ): Promise<Sent | Nothing>
  /** A claim has found nothing, or what it found is not handled now. */
  nothing(answer: ClaimAnswer): Nothing
  /** Undefined: what was claimed is to be handled. Otherwise it goes back, because the transaction would keep too much. */
  goesBack(answer: ClaimAnswer, sent: SentClaim): Nothing | undefined
  /** In the transaction of a claim that leases: its permits last as long as the leases. */
  lease(connection: BatchConnection, rows: readonly ClaimedRow[], lease: string): Promise<void>
  /** What was claimed is handled. */
  took(answer: ClaimAnswer): void
  /** The round is over: what it did not use goes back. */
  close(): void
}

/** What a claim may take by the limits. */
export type Admitted = Pick<ClaimRequest, 'most' | 'locked'>

/** Nothing may be claimed for now. */
export interface Nothing {
  readonly kind: 'sleep'
  /** In how many milliseconds something may be; null: no clock tells. */
  readonly nextDueMs: number | null
  /** Another claim may find something now. */
  readonly partial: boolean
}

/** To whoever claims: what it is to hear of a limit. */
export interface AdmittedDemand {
  readonly draining: AbortSignal
  /** As before and after a claim. */
  sent(): void
  answered(): void
  /** The limits have changed: something may be claimed now. */
  opened(): void
}

export const UNLIMITED: Admission = {
  isSingle: false,
  async begin(connection, limit, send) {
    // In one packet.
    return connection.together(() => {
      connection.begin(limit)
      return send({})
    })
  },
  nothing: ({ nextDueMs, partial }) => ({ kind: 'sleep', nextDueMs, partial }),
  goesBack: () => undefined,
  lease: async () => undefined,
  took: () => undefined,
  close: () => undefined,
}
