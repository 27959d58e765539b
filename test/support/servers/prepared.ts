import type pg from 'pg'
import type { TestDatabase } from './database.ts'

/**
 * The same database, for a test that asks the same things a thousand times: a statement with parameters is parsed once per
 * connection, and soon planned once. To parse and plan the library's larger statements takes longer than to run them.
 */
export function prepared(database: TestDatabase): TestDatabase {
  return {
    url: database.url,
    pool: database.pool,
    sql: async <Row extends pg.QueryResultRow = pg.QueryResultRow>(text: string, params: readonly unknown[] = []) => {
      const named = params.length === 0 ? { text } : { name: nameOf(text), text, values: [...params] }
      return (await database.pool.query<Row>(named)).rows
    },
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  }
}

const names = new Map<string, string>()

function nameOf(text: string): string {
  const name = names.get(text) ?? `prepared_${names.size}`
  names.set(text, name)
  return name
}
