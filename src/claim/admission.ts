import type { ClaimedRow } from '../table/claim/claim.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import type { TransactionLimit } from '../transaction/transaction-settings.ts'
import type { ClaimAnswer, ClaimRequest, SentClaim } from './claim-answer.ts'

/** Permission for a round to claim. For a queue without limits it is {@link UNLIMITED}; a round treats both alike. */
export interface Admission {
  /** A round under limits claims once: each claim asks anew. */
  readonly isSingle: boolean
  /** Begins the transaction that claims, and sends its first claim. */
  begin<Sent>(
    connection: BatchConnection,
    limit: TransactionLimit,
    send: (terms: Admitted) => Sent,
  ): Promise<Sent | Nothing>
  /** A claim found nothing, or its messages are not handled now. */
  nothing(answer: ClaimAnswer): Nothing
  /** Undefined: handle the messages. Otherwise they go back, because the transaction would keep too many permits. */
  goesBack(answer: ClaimAnswer, sent: SentClaim): Nothing | undefined
  /** In the transaction of a leasing claim: its permits last as long as the leases. */
  lease(connection: BatchConnection, rows: readonly ClaimedRow[], lease: string): Promise<void>
  /** The claimed messages are handled. */
  took(answer: ClaimAnswer): void
  /** The round is over: unused tokens go back. */
  close(): void
}

/** What a claim may take by the limits. */
export type Admitted = Pick<ClaimRequest, 'most' | 'locked' | 'kind'>

/** Nothing may be claimed for now. */
export interface Nothing {
  readonly kind: 'sleep'
  /** Milliseconds until something may be claimed; null: unknown. */
  readonly nextDueMs: number | null
  /** Another claim may find something now. */
  readonly partial: boolean
}

/** The demand, as a limiter sees it. */
export interface AdmittedDemand {
  readonly draining: AbortSignal
  /** How many hints there have been. The end of a delay does not count: a claim has given that time. */
  readonly hints: number
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

/** For one claim of one message. */
export const ONE_MESSAGE: Admission = {
  ...UNLIMITED,
  isSingle: true,
  async begin(connection, limit, send) {
    return connection.together(() => {
      connection.begin(limit)
      return send({ most: 1 })
    })
  },
}
