import { describe, expected, SluiceError } from '../errors.ts'
import type { HandlerTransaction } from '../handle/transaction/handler-transaction.ts'
import { loans } from './loan.ts'

/** What Sluice needs of an adapter of `@prisma/adapter-pg`. */
export interface PrismaAdapter {
  startTransaction(isolationLevel?: never): Promise<object>
}

/** What Sluice needs of a `PrismaPg`. */
export interface PrismaAdapterFactory {
  readonly adapterName: string
  connect(): Promise<PrismaAdapter>
}

/**
 * Prepares the adapter of a Prisma client for {@link prismaIn}. Outside of it the client works as before.
 *
 * @param adapter a `PrismaPg` of `@prisma/adapter-pg`
 * @throws SluiceError OPTION_INVALID
 *
 * @example const prisma = new PrismaClient({ adapter: forHandlers(new PrismaPg({ connectionString })) })
 */
export function forHandlers<Factory extends PrismaAdapterFactory>(adapter: Factory): Factory {
  if (adapter?.adapterName !== ADAPTER) {
    const received = adapter?.adapterName ?? adapter
    throw expected('OPTION_INVALID', 'forHandlers', `a PrismaPg of ${ADAPTER}`, received, REMEDY)
  }
  const connect = async () => withLoans(await adapter.connect())
  return Object.create(adapter, { connect: { value: connect } })
}

const ADAPTER = '@prisma/adapter-pg'
const REMEDY = 'As in forHandlers(new PrismaPg({ connectionString }))'

function withLoans(adapter: PrismaAdapter): PrismaAdapter {
  const startTransaction = (isolationLevel?: never) => {
    const loan = loans.getStore()
    if (loan === undefined || loan.taken) return adapter.startTransaction(isolationLevel)
    loan.taken = true
    return startOn(loan.tx, adapter, isolationLevel)
  }
  return Object.create(adapter, { startTransaction: { value: startTransaction } })
}

/**
 * The adapter begins its transaction as ever, on a connection of its pool: of the handler's pool, which stands in the place
 * of its own for this one call.
 */
async function startOn(tx: HandlerTransaction, adapter: PrismaAdapter, isolationLevel: never | undefined) {
  let asked = false
  const connect = () => {
    asked = true
    return tx.pool.connect()
  }
  const lent: PrismaAdapter = Object.create(adapter, { client: { value: { connect } } })
  const transaction = await adapter.startTransaction.call(lent, isolationLevel)
  if (asked) return transaction
  throw new SluiceError(
    'OPTION_INVALID',
    `prismaIn: expected ${ADAPTER} to begin a transaction on the pool in its field \`client\`, received ` +
      `${describe(transaction)} without that. This version of the package is not supported`,
  )
}
