import { hasSqlState, IN_FAILED_TRANSACTION } from '../../basics/sql-state.ts'
import { TRANSACTION_PROBE } from '../../table/session/transaction-probe.ts'
import type { Execute } from '../../table/statement.ts'
import { notInTransaction, transactionFailed } from './not-in-transaction.ts'

/** For clients that cannot tell: resolves with the connection once the server says that a transaction is open on it. */
export async function probed(execute: Execute, received: string, remedy: string): Promise<Execute> {
  try {
    await execute(TRANSACTION_PROBE, [])
    return execute
  } catch (error) {
    if (hasSqlState(error, '25P01')) throw notInTransaction(received, remedy, error)
    if (hasSqlState(error, IN_FAILED_TRANSACTION)) throw transactionFailed(error)
    throw error
  }
}
