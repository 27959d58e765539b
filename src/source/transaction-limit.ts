import type { TransactionalPlan } from '../plan/options.ts'
import type { TransactionLimit } from '../transaction/transaction-settings.ts'

/** How long the transaction of a batch may last: no handler begins later than its timeout after the first. */
export function limitOf({ timeoutMs }: Pick<TransactionalPlan, 'timeoutMs'>, serverVersion: number): TransactionLimit {
  return { ms: timeoutMs * 2 + SERVER_GRACE_MS, serverVersion }
}

/** The server ends a transaction this long after the process should have. */
const SERVER_GRACE_MS = 1_000
