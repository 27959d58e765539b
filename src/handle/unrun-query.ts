import { expected } from '../errors.ts'

/** What to do about a query that was only built. */
export const RUN_IT = 'Nothing has run the query: end it with .execute(), and await that'

/**
 * A query of Kysely or TypeORM that was built and not run. `await` does not run it, as it does those of Drizzle and Knex, so a
 * handler that returns it looks as if it had done its work.
 */
export function isUnrunQuery(returned: unknown): boolean {
  if (typeof returned !== 'object' || returned === null) return false
  const has = (name: string) => typeof Reflect.get(returned, name) === 'function'
  return !has('then') && has('execute') && (has('compile') || has('getQuery'))
}

/** @throws SluiceError OPTION_INVALID for a query that was not run */
export function refuseUnrunQuery(call: string, returned: unknown): void {
  if (isUnrunQuery(returned))
    throw expected('OPTION_INVALID', `${call}(): its result`, 'no unrun query', returned, RUN_IT)
}
