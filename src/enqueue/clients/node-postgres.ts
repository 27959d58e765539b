import type { ClientBase } from 'pg'
import { noteLogin } from '../../basics/errors/login-of.ts'
import { rowsOf } from '../../connection/rows-of.ts'
import { queryUndescribed, takesUndescribed } from '../../connection/undescribed-query.ts'
import { queryAsText } from '../../session/own-parsers.ts'
import type { Execute } from '../../table/statement.ts'
import { endedHere, notInTransaction, transactionFailed } from './not-in-transaction.ts'
import { probed } from './probed.ts'
import type { Recogniser } from './recogniser.ts'

/** A `pg` Client or PoolClient, and what extends them. */
interface Client extends Pick<ClientBase, 'query'> {
  /** From pg 8.21 on: 'I' idle, 'T' in a transaction, 'E' in a failed one; null before it has connected. */
  getTransactionStatus?(): string | null
  readonly readyForQuery?: boolean
}

/** Each query of a pool may run on another connection, so a pool is never in a transaction. */
interface Pool {
  readonly totalCount: number
}

const REMEDY = "Use a client of pool.connect() after client.query('BEGIN')"

export const nodePostgres: Recogniser<Client | Pool> = {
  name: 'a pg Client or PoolClient after BEGIN',

  matches: (tx): tx is Client | Pool =>
    'query' in tx && typeof tx.query === 'function' && 'connect' in tx && ('escapeIdentifier' in tx || isPool(tx)),

  execute(tx) {
    if (isPool(tx)) throw notInTransaction('a pg Pool', REMEDY)
    const undescribed = takesUndescribed(tx)
    const execute: Execute = ({ text, columns }, params) => {
      const sent =
        columns !== undefined && undescribed
          ? queryUndescribed(tx, { text, columns, params })
          : queryAsText(tx, { text, values: [...params] }).then(rowsOf)
      return sent.catch((error: unknown) => {
        noteLogin(error, tx)
        return refuseClosed(error)
      })
    }
    const status = tx.getTransactionStatus?.()
    if (status === 'T' && tx.readyForQuery !== false) return execute
    if (status === 'E') throw transactionFailed()
    if (status === null) throw notInTransaction('a pg client that is not connected', REMEDY)
    // This is the server's status after the last finished statement. A BEGIN or COMMIT may have been sent since.
    return probed(execute, endedHere('a pg client outside one', REMEDY))
  },
}

function refuseClosed(error: unknown): never {
  if (!(error instanceof Error) || !NOT_QUERYABLE.test(error.message)) throw error
  throw notInTransaction('a pg client that is closed', REMEDY, error)
}

/** The driver's error for a client after end(), or after its connection broke. */
const NOT_QUERYABLE = /^Client (was closed|has encountered a connection error) and is not queryable/

function isPool(tx: object): tx is Pool {
  return 'totalCount' in tx && 'idleCount' in tx
}
