import { AsyncLocalStorage } from 'node:async_hooks'
import type { HandlerTransaction } from '../handle/transaction/handler-transaction.ts'

/** A handler's transaction, for the next one that a Prisma client begins in this call. */
export class Loan {
  readonly tx: HandlerTransaction
  /** The adapter has begun a transaction on it. */
  taken = false

  constructor(tx: HandlerTransaction) {
    this.tx = tx
  }
}

/**
 * Prisma tells its adapter nothing of the call that begins a transaction. A transaction once begun is an object of its own,
 * so only its beginning depends on this: Prisma joins queries of one tick, and would send those of two handlers together.
 */
export const loans = new AsyncLocalStorage<Loan | undefined>()
