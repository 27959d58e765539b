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
  /** A Kysely transaction on that client. */
  kysely<Database>(): Transaction<Database>
  /** Runs one statement: short for `client.query`. */
  query<Row extends pg.QueryResultRow>(sql: string, params?: readonly unknown[]): Promise<pg.QueryResult<Row>>
}
