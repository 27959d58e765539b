import { rowsOf } from '../../connection/rows-of.ts'
import { ended, notInTransaction } from './not-in-transaction.ts'
import type { Recogniser } from './recogniser.ts'

interface QueryRunner {
  readonly isTransactionActive: boolean
  readonly isReleased: boolean
  query(text: string, params: readonly unknown[], structured: true): Promise<{ readonly records?: unknown }>
}

/** A QueryRunner, or an EntityManager, which has one only in transactions, or a DataSource, which never has one. */
type TypeOrm = QueryRunner | { readonly queryRunner?: QueryRunner | undefined }

const REMEDY = 'Use the manager that dataSource.transaction(…) gives, or a QueryRunner after startTransaction()'

export const typeorm: Recogniser<TypeOrm> = {
  name: 'a TypeORM EntityManager or QueryRunner in a transaction',

  matches: (tx): tx is TypeOrm => '@instanceof' in tx || isQueryRunner(tx),

  execute(tx) {
    const runner = isQueryRunner(tx) ? tx : tx.queryRunner
    if (runner === undefined) throw notInTransaction('a TypeORM manager or data source outside one', REMEDY)
    if (runner.isReleased || !runner.isTransactionActive) throw ended('a TypeORM query runner outside one', REMEDY)
    // Only the structured result has the same shape for every command.
    return async ({ text }, params) => rowsOf((await runner.query(text, params, true)).records)
  },
}

function isQueryRunner(tx: object): tx is QueryRunner {
  return 'isTransactionActive' in tx && 'query' in tx
}
