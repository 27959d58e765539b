import { hasSqlState, IN_FAILED_TRANSACTION } from '../../basics/errors/sql-state.ts'
import type { SluiceError } from '../../errors.ts'
import { TRANSACTION_PROBE } from '../../table/session/transaction-probe.ts'
import type { Execute } from '../../table/statement.ts'
import { transactionFailed } from './not-in-transaction.ts'

/**
 * For clients that cannot tell: resolves with the connection once the server says that a transaction is open on it.
 *
 * @param refused makes the error if none is
 */
export async function probed(execute: Execute, refused: (cause: unknown) => SluiceError): Promise<Execute> {
  try {
    await execute(TRANSACTION_PROBE, [])
    return execute
  } catch (error) {
    if (hasSqlState(error, '25P01')) throw refused(error)
    if (hasSqlState(error, IN_FAILED_TRANSACTION)) throw transactionFailed(error)
    throw error
  }
}
