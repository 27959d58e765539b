import { rowsOf } from '../../connection/rows-of.ts'
import { ended, notInTransaction } from './not-in-transaction.ts'
import type { Recogniser } from './recogniser.ts'

interface Knex {
  readonly isTransaction?: boolean
  isCompleted?(): boolean
  raw(text: string, bindings: readonly unknown[]): Promise<unknown>
}

const REMEDY = 'Use the trx that knex.transaction(…) gives, while it is open'

const ENDED = 'a Knex transaction that has ended'

export const knex: Recogniser<Knex> = {
  name: 'a Knex transaction',

  matches: (tx): tx is Knex =>
    typeof tx === 'function' && 'raw' in tx && typeof tx.raw === 'function' && 'schema' in tx && 'client' in tx,

  execute(tx) {
    if (tx.isTransaction !== true) throw notInTransaction('a Knex instance', REMEDY)
    if (tx.isCompleted?.() === true) throw ended(ENDED, REMEDY)
    return async ({ text }, params) => {
      const { sql, bindings } = positional(text, params)
      try {
        return rowsOf(await tx.raw(sql, bindings))
      } catch (error) {
        if (!(error instanceof Error) || !/^Transaction query already complete/.test(error.message)) throw error
        throw ended(ENDED, REMEDY, error)
      }
    }
  },
}

/**
 * Knex knows only `?`: each `$n` becomes one, with its value, in the order of the text; a `?` of the text is escaped.
 */
function positional(text: string, params: readonly unknown[]): { sql: string; bindings: readonly unknown[] } {
  const bindings: unknown[] = []
  const sql = text.replace(/\?|\$(\d+)/g, (match, number?: string) => {
    if (number === undefined) return `\\${match}`
    bindings.push(params[Number(number) - 1])
    return '?'
  })
  return { sql, bindings }
}
