import { rowsOf } from '../../connection/rows-of.ts'
import { ended, notInTransaction } from './not-in-transaction.ts'
import { probed } from './probed.ts'
import type { Recogniser } from './recogniser.ts'

interface PostgresJs {
  unsafe(text: string, params: unknown[]): Promise<unknown>
  /** Only on the handle of a transaction. */
  readonly savepoint?: unknown
  /** Only on the pool. */
  readonly begin?: unknown
}

const REMEDY = 'Use the sql that sql.begin(…) gives, inside it'

export const postgresJs: Recogniser<PostgresJs> = {
  name: 'the sql of a postgres.js begin',

  matches: (tx): tx is PostgresJs => typeof tx === 'function' && 'unsafe' in tx && 'typed' in tx && 'notify' in tx,

  execute(tx) {
    if (typeof tx.begin === 'function') throw notInTransaction('a postgres.js pool', REMEDY)
    // The handle does not know when its transaction has ended: later statements would run outside of it.
    return probed(async ({ text }, params) => rowsOf(await tx.unsafe(text, [...params])), refused)
  },
}

const refused = (cause: unknown) => ended('a postgres.js handle outside one', REMEDY, cause)
