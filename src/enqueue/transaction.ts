import { expected } from '../errors.ts'
import type { Execute } from '../table/statement.ts'
import { type Call, STATEMENT } from './call.ts'
import { drizzle } from './clients/drizzle.ts'
import { knex } from './clients/knex.ts'
import { kysely } from './clients/kysely.ts'
import { nodePostgres } from './clients/node-postgres.ts'
import { postgresJs } from './clients/postgres-js.ts'
import { prisma } from './clients/prisma.ts'
import type { Recogniser } from './clients/recogniser.ts'
import { typeorm } from './clients/typeorm.ts'
import { EXECUTE } from './own-symbols.ts'

/**
 * The connection of the caller's open transaction, whatever client it belongs to.
 *
 * @param call what is sent on it, for the error of a handler's transaction that has ended
 * @throws SluiceError EXECUTOR_UNKNOWN if it belongs to no known client; NOT_IN_TRANSACTION if it belongs to one, but
 * no transaction is open on it
 */
export function executorOf(tx: unknown, call: Call = STATEMENT): Execute | Promise<Execute> {
  if (tx !== null && (typeof tx === 'object' || typeof tx === 'function')) {
    const own: unknown = Reflect.get(tx, EXECUTE)
    if (isExecuteIn(own)) return own.call(tx, call)
    for (const client of CLIENTS) if (client.matches(tx)) return client.execute(tx)
  }
  if (tx instanceof Promise) throw expected('EXECUTOR_UNKNOWN', 'tx', 'an open transaction', tx, 'Await it first')
  const names = CLIENTS.map(({ name }) => name)
  throw expected('EXECUTOR_UNKNOWN', 'tx', `${names.join(', ')}, or the tx of a handler`, tx, REMEDY)
}

const CLIENTS: readonly Recogniser<object>[] = [nodePostgres, kysely, postgresJs, knex, drizzle, typeorm, prisma]

const REMEDY = "Pass the transaction that changes your data, or sluice.ownTransaction to enqueue in one of Sluice's own"

function isExecuteIn(value: unknown): value is (call: Call) => Execute {
  return typeof value === 'function'
}
