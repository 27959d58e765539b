import { deepStack } from '../../basics/errors/deep-stack.ts'
import { SluiceError } from '../../errors.ts'

/** The error for a client without an open transaction. Its stack reaches the caller of `enqueue`, if that has not returned. */
export function notInTransaction(received: string, remedy: string, cause?: unknown): SluiceError {
  const message = `tx: expected an open transaction, received ${received}. ${remedy}, or pass sluice.ownTransaction`
  return deepStack(() => new SluiceError('NOT_IN_TRANSACTION', message, cause === undefined ? {} : { cause }))
}

/** The error for a transaction that has ended: an enqueue that nobody awaits comes after the COMMIT. */
export function ended(received: string, remedy: string, cause?: unknown): SluiceError {
  return notInTransaction(received, `${remedy}, and await this call before its COMMIT`, cause)
}

/** The same with the stack of now, for what the server answers later. It takes some microseconds. */
export function endedHere(received: string, remedy: string): (cause: unknown) => SluiceError {
  const error = ended(received, remedy)
  return (cause) => Object.defineProperty(error, 'cause', { value: cause, configurable: true, writable: true })
}

/** The error for a transaction in which a statement has failed, so that only ROLLBACK can follow. */
export function transactionFailed(cause?: unknown): SluiceError {
  return new SluiceError(
    'NOT_IN_TRANSACTION',
    'tx: expected an open transaction, received one that is aborted. A statement in it failed before: roll it back, and start again',
    cause === undefined ? {} : { cause },
  )
}
