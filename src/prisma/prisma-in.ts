import { expected } from '../errors.ts'
import type { HandlerTransaction } from '../handle/transaction/handler-transaction.ts'
import { Loan, loans } from './loan.ts'

/** What Sluice needs of a Prisma client. */
export interface PrismaTransactions<Db> {
  $transaction<Result>(
    work: (db: Db) => Promise<Result>,
    options?: { readonly maxWait?: number; readonly timeout?: number },
  ): Promise<Result>
}

/**
 * Runs `work` with a Prisma client on a handler's transaction: what it writes through `db` commits together with the removal
 * of the message. It is a `$transaction` of the client, which becomes a savepoint: if `work` throws, what it has written
 * through `db` is undone. Its time is the handler's. What `work` does with another client than `db` is outside.
 *
 * @param prisma a client whose adapter {@link forHandlers} has prepared
 * @throws SluiceError OPTION_INVALID for another client, and what `work` throws
 *
 * @example await prismaIn(tx, prisma, (db) => db.note.create({ data: payload }))
 */
export async function prismaIn<Db, Result>(
  tx: HandlerTransaction,
  prisma: PrismaTransactions<Db>,
  work: (db: Db) => Promise<Result>,
): Promise<Result> {
  if (typeof tx?.pool?.connect !== 'function') {
    throw expected('OPTION_INVALID', 'prismaIn', "a handler's tx", tx, 'As in prismaIn(tx, prisma, async (db) => …)')
  }
  const loan = new Loan(tx)
  const onLoan = (db: Db) => {
    if (!loan.taken) throw expected('OPTION_INVALID', 'prismaIn', 'a client with a prepared adapter', prisma, REMEDY)
    return loans.run(undefined, () => work(db))
  }
  return loans.run(loan, () => prisma.$transaction(async (db) => onLoan(db), LIMITS))
}

const REMEDY = 'Make it with new PrismaClient({ adapter: forHandlers(new PrismaPg(…)) })'

/** Prisma's own would be 2 s to begin and 5 s to end. The longest time of a handler is a day. */
const LIMITS = { maxWait: 86_400_000, timeout: 86_400_000 }
