import { rowsOf } from '../../connection/rows-of.ts'
import { ended, notInTransaction } from './not-in-transaction.ts'
import type { Recogniser } from './recogniser.ts'

interface Prisma {
  $queryRawUnsafe(text: string, ...params: unknown[]): Promise<unknown>
  /** Not on the client of an interactive transaction. */
  readonly $connect?: unknown
}

const REMEDY = 'Use the tx that prisma.$transaction(async (tx) => …) gives, inside it'

export const prisma: Recogniser<Prisma> = {
  name: 'the tx of an interactive Prisma transaction',

  matches: (tx): tx is Prisma => '$queryRawUnsafe' in tx,

  execute(tx) {
    if (typeof tx.$connect === 'function') throw notInTransaction('a PrismaClient', REMEDY)
    return async ({ text }, params) => {
      try {
        return rowsOf(await tx.$queryRawUnsafe(text, ...params))
      } catch (error) {
        if (!isTransactionError(error)) throw error
        throw ended('a Prisma transaction that has ended', REMEDY, error)
      }
    }
  },
}

/** "Transaction API error": it has been committed, rolled back, or has timed out. */
function isTransactionError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'P2028'
}
