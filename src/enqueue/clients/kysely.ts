import { rowsOf } from '../../connection/rows-of.ts'
import type { Execute } from '../../table/statement.ts'
import { ended, notInTransaction } from './not-in-transaction.ts'
import type { Recogniser } from './recogniser.ts'

interface Kysely {
  readonly isTransaction: boolean
  /** On controlled transactions. */
  readonly isCommitted?: boolean
  readonly isRolledBack?: boolean
  executeQuery(query: CompiledQuery): Promise<unknown>
  withoutPlugins(): Kysely
}

/** As `CompiledQuery.raw` makes it. */
interface CompiledQuery {
  readonly sql: string
  readonly parameters: readonly unknown[]
  readonly query: {
    readonly kind: 'RawNode'
    readonly sqlFragments: readonly string[]
    readonly parameters: readonly []
  }
  readonly queryId: { readonly queryId: string }
}

const REMEDY = 'Use the trx of db.transaction().execute(…) or of db.startTransaction() while it is open'

const ENDED = 'a Kysely transaction that has ended'

/** From Kysely 0.28.18 on, which itself refuses statements in a transaction that has ended. */
export const kysely: Recogniser<Kysely> = {
  name: 'a Kysely Transaction',

  matches: (tx): tx is Kysely => 'isTransaction' in tx && 'executeQuery' in tx && 'withoutPlugins' in tx,

  execute(tx) {
    if (!tx.isTransaction) throw notInTransaction('a Kysely instance', REMEDY)
    if (tx.isCommitted || tx.isRolledBack) throw ended(ENDED, REMEDY)
    // A plugin may rename the columns of the result.
    return executeIn(tx.withoutPlugins())
  },
}

function executeIn(tx: Kysely): Execute {
  return async ({ name, text }, params) => {
    try {
      return rowsOf(await tx.executeQuery(compiled(name, text, params)))
    } catch (error) {
      if (!(error instanceof Error) || !/^Transaction is already (committed|rolled back)/.test(error.message))
        throw error
      throw ended(ENDED, REMEDY, error)
    }
  }
}

function compiled(name: string, text: string, parameters: readonly unknown[]): CompiledQuery {
  const query = { kind: 'RawNode', sqlFragments: [text], parameters: [] } as const
  return { sql: text, parameters, query, queryId: { queryId: name } }
}
