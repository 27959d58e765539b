import {
  hasSqlState,
  IN_FAILED_TRANSACTION,
  INSUFFICIENT_PRIVILEGE,
  SCHEMA_OR_TABLE_MISSING,
} from '../basics/errors/sql-state.ts'
import { wordsOf } from '../basics/errors/words-of.ts'
import { privilegeMissing } from '../connection/privilege.ts'
import { expected, SluiceError } from '../errors.ts'
import { schemaMissing } from '../table/schema-missing.ts'
import type { Execute } from '../table/statement.ts'
import { isOfGroup, ofGroup } from '../table/stream/group-queue.ts'
import { atSite, type Call } from './call.ts'
import { transactionFailed } from './clients/not-in-transaction.ts'
import type { OwnTransaction } from './open-transaction.ts'
import { DURING } from './own-symbols.ts'
import { executorOf } from './transaction.ts'

/** Give this instead of a transaction to enqueue in one of Sluice's own, committed when `enqueue` returns. */
export const ownTransaction: OwnTransaction = Symbol.for('sluice.ownTransaction') as never

export interface TransactionHost {
  readonly inOwnTransaction: <T>(work: (execute: Execute) => Promise<T>) => Promise<T>
  /** The same for work that is one statement, with one wait for the server. */
  readonly inOnePacket: <T>(work: (execute: Execute) => Promise<T>) => Promise<T>
}

/**
 * Does the work in the caller's transaction, or in one of its own.
 *
 * @throws SluiceError EXECUTOR_UNKNOWN, NOT_IN_TRANSACTION, SCHEMA_MISSING, SCHEMA_TOO_OLD, PRIVILEGE_MISSING
 */
export async function within<T>(
  host: TransactionHost,
  tx: unknown,
  call: Call,
  work: (execute: Execute) => Promise<T>,
): Promise<T> {
  try {
    if (tx === ownTransaction) return await host.inOwnTransaction(work)
    const found = executorOf(tx, call)
    return await work(found instanceof Promise ? await found : found)
  } catch (error) {
    throw atSite(explained(error), call)
  }
}

/**
 * Does work that is one statement in a transaction of its own, and waits for the server once.
 *
 * @throws SluiceError as {@link within}
 */
export async function atOnce<T>(
  { inOnePacket }: Pick<TransactionHost, 'inOnePacket'>,
  send: (execute: Execute) => Promise<T>,
): Promise<T> {
  try {
    return await inOnePacket(send)
  } catch (error) {
    throw explained(error)
  }
}

/** Tells a handler's transaction that an enqueue has begun, so that Sluice waits for it if the handler does not. */
export function during<T>(tx: unknown, work: Promise<T>): Promise<T> {
  return isOurs(tx) ? tx[DURING](work) : work
}

interface Ours {
  [DURING]<T>(work: Promise<T>): Promise<T>
}

function isOurs(tx: unknown): tx is Ours {
  return typeof tx === 'object' && tx !== null && DURING in tx && typeof tx[DURING] === 'function'
}

/** A caller who forgets the transaction passes the name as the first argument. */
export function checkOrder(tx: unknown, name: unknown, call: string): void {
  if (typeof tx !== 'string' || typeof name === 'string') return
  throw expected('EXECUTOR_UNKNOWN', 'tx', 'an open transaction as the first argument', tx, `As in ${call}`)
}

/** A SluiceError if the server's refusal has only one meaning here, otherwise the error as it came. */
function explained(error: unknown): unknown {
  if (error instanceof SluiceError) return error
  if (hasSqlState(error, IN_FAILED_TRANSACTION)) return transactionFailed(error)
  if (hasSqlState(error, INSUFFICIENT_PRIVILEGE)) return privilegeMissing('sluice_producer', error)
  if (hasSqlState(error, '42883')) return functionMissing(error)
  if (hasSqlState(error, 'SL020')) return payloadTooLarge(error)
  if (isOfGroup(error)) return ofGroup(error)
  return isSchemaMissing(error) ? schemaMissing(error) : error
}

/** A trigger of the application may lack a table of its own. */
function isSchemaMissing(error: unknown): boolean {
  return (
    SCHEMA_OR_TABLE_MISSING.some((state) => hasSqlState(error, state)) && /\bsluice(_private)?\b/.test(wordsOf(error))
  )
}

/** Larger than its queue's limit. The transaction has failed with it. */
function payloadTooLarge(cause: unknown): SluiceError {
  const remedy = 'Store large content elsewhere and enqueue a reference to it'
  return new SluiceError('PAYLOAD_TOO_LARGE', `${wordsOf(cause)}. ${remedy}`, { cause })
}

function functionMissing(cause: unknown): SluiceError {
  return new SluiceError(
    'SCHEMA_TOO_OLD',
    `Schema "sluice" is too old: ${wordsOf(cause)}. Run \`npx sluice migrate\``,
    {
      cause,
    },
  )
}
