import { SluiceError } from '../../errors.ts'

/** The error for a client without an open transaction. */
export function notInTransaction(received: string, remedy: string, cause?: unknown): SluiceError {
  const message = `tx: expected an open transaction, received ${received}. ${remedy}, or pass sluice.ownTransaction`
  return new SluiceError('NOT_IN_TRANSACTION', message, cause === undefined ? {} : { cause })
}

/** The error for a transaction in which a statement has failed, so that only ROLLBACK can follow. */
export function transactionFailed(cause?: unknown): SluiceError {
  return new SluiceError(
    'NOT_IN_TRANSACTION',
    'tx: expected an open transaction, received one that is aborted. A statement in it failed before: roll it back, and start again',
    cause === undefined ? {} : { cause },
  )
}
