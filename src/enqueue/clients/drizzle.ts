import { rowsOf } from '../../connection/rows-of.ts'
import type { Execute } from '../../table/statement.ts'
import { nodePostgres } from './node-postgres.ts'
import { ended, notInTransaction } from './not-in-transaction.ts'
import { postgresJs } from './postgres-js.ts'
import { probed } from './probed.ts'
import type { Recogniser } from './recogniser.ts'

interface Drizzle {
  execute(query: { getSQL(): { toQuery(): { sql: string; params: unknown[] } } }): Promise<unknown>
  readonly dialect: object
  readonly session?: { readonly client?: unknown }
  /** Only on a transaction. */
  readonly rollback?: unknown
}

const REMEDY = 'Use the tx that db.transaction(…) gives, inside it'

export const drizzle: Recogniser<Drizzle> = {
  name: 'a Drizzle transaction',

  matches: (tx): tx is Drizzle =>
    'execute' in tx &&
    typeof tx.execute === 'function' &&
    'dialect' in tx &&
    typeof tx.dialect === 'object' &&
    tx.dialect !== null &&
    'sqlToQuery' in tx.dialect,

  async execute(tx) {
    if (typeof tx.rollback !== 'function') throw notInTransaction('a Drizzle database', REMEDY)
    const execute: Execute = async ({ text }, params) => rowsOf(await tx.execute(queryOf(text, [...params])))
    if (!(await vouchedFor(tx.session?.client))) await probed(execute, refused)
    return execute
  },
}

const refused = (cause: unknown) => ended('a Drizzle transaction that has ended', REMEDY, cause)

/** Replaces the application's `sql` tag, of which Drizzle needs only the text and the parameters. */
function queryOf(sql: string, params: unknown[]): Parameters<Drizzle['execute']>[0] {
  return { getSQL: () => ({ toQuery: () => ({ sql, params }) }) }
}

/** Whether the driver below Drizzle is known and in a transaction. */
async function vouchedFor(driver: unknown): Promise<boolean> {
  if (driver === null || (typeof driver !== 'object' && typeof driver !== 'function')) return false
  if (nodePostgres.matches(driver)) await nodePostgres.execute(driver)
  else if (postgresJs.matches(driver)) await postgresJs.execute(driver)
  else return false
  return true
}
