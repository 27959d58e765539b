import { notInTransaction } from './not-in-transaction.ts'
import type { Recogniser } from './recogniser.ts'

/** Each query of a pool may run on another connection, so a pool is never in a transaction. */
export const nodePostgresPool: Recogniser<object> = {
  name: '',

  matches: (tx): tx is object => 'query' in tx && 'connect' in tx && 'totalCount' in tx && 'idleCount' in tx,

  async execute() {
    throw notInTransaction('a pg Pool', "Use a client of pool.connect() after client.query('BEGIN')")
  },
}
