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
    // The status is the server's word after the last statement that has ended: worth nothing while one is under way.
    const status = tx.readyForQuery === false ? undefined : tx.getTransactionStatus?.()
    if (status === 'T') return execute
    if (status === 'E') throw transactionFailed()
    if (status === undefined) return probed(execute, 'a pg client outside one', REMEDY)
    throw notInTransaction('a pg client outside one', REMEDY)
  },
}
