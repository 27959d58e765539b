import type { Execute } from '../../table/statement.ts'
import { notInTransaction, transactionFailed } from './not-in-transaction.ts'
import { probed } from './probed.ts'
import type { Recogniser } from './recogniser.ts'
import { rowsOf } from './rows.ts'

/** A `pg` Client or PoolClient, and what extends them. */
interface NodePostgresClient {
  query(text: string, values: unknown[]): Promise<unknown>
  /** From pg 8.21 on: 'I' idle, 'T' in a transaction, 'E' in a failed one. */
  getTransactionStatus?(): string | null
  readonly readyForQuery?: boolean
}

const REMEDY = "Use a client of pool.connect() after client.query('BEGIN')"

export const nodePostgres: Recogniser<NodePostgresClient> = {
  name: 'a pg Client or PoolClient after BEGIN',

  matches: (tx): tx is NodePostgresClient =>
    'query' in tx && typeof tx.query === 'function' && 'escapeIdentifier' in tx && 'connect' in tx,

  async execute(tx) {
    const execute: Execute = async ({ text }, params) => rowsOf(await tx.query(text, [...params]))
    const status = tx.getTransactionStatus?.()
    if (status === 'T' && tx.readyForQuery !== false) return execute
    if (status === 'E') throw transactionFailed()
    if (status === null) throw notInTransaction('a pg client that is not connected', REMEDY)
    // The status is the server's word after the last statement that ended. A BEGIN or COMMIT may be under way since.
    return probed(execute, 'a pg client outside one', REMEDY)
  },
}
