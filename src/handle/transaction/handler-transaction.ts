import type { Transaction } from 'kysely'
import type pg from 'pg'

/**
 * The batch's transaction as a handler gets it. What the handler writes through it commits together with the removal
 * of the message, or not at all. It may be given to `sluice.enqueue`, and ends with the handler.
 */
export interface HandlerTransaction {
  /**
   * The `pg` client. Refused are BEGIN, COMMIT, ROLLBACK, PREPARE, DEALLOCATE, DISCARD ALL and the driver's cursor
   * objects. Savepoints are fine.
   */
  readonly client: pg.PoolClient
  /**
   * A `pg` pool with that one connection, for libraries that take a pool or begin transactions of their own: their
   * transactions become savepoints. The one that began last must end first.
   *
   * @example await drizzle(tx.pool).transaction((orders) => place(orders, payload))
   */
  readonly pool: pg.Pool
  /** A Kysely transaction on that client. */
  kysely<Database>(): Transaction<Database>
  /** Runs one statement: short for `client.query`. */
  query<Row extends pg.QueryResultRow>(sql: string, params?: readonly unknown[]): Promise<pg.QueryResult<Row>>
}
