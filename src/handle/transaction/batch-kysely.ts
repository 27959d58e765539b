import type { CompiledQuery, DatabaseConnection, Dialect, Driver, QueryResult, Transaction } from 'kysely'
import type pg from 'pg'
import { kysely } from '../../basics/kysely.ts'
import { SluiceError } from '../../errors.ts'

/**
 * A Kysely transaction on a client whose transaction is already open and is not Kysely's to begin or to end; the
 * client decides at each statement whether it may run.
 */
export function kyselyOn<Database>(client: pg.ClientBase): Transaction<Database> {
  const parts = kysely()
  const driver = new BatchDriver(client)
  const dialect: Dialect = {
    createAdapter: () => new parts.PostgresAdapter(),
    createDriver: () => driver,
    createIntrospector: (db) => new parts.PostgresIntrospector(db),
    createQueryCompiler: () => new parts.PostgresQueryCompiler(),
  }
  const executor = new parts.Kysely<Database>({ dialect }).getExecutor()
  return new parts.Transaction<Database>({ config: { dialect }, dialect, driver, executor })
}

/** Kysely never calls the transaction methods: a `Transaction` refuses `transaction()` itself. */
class BatchDriver implements Driver {
  readonly #connection: DatabaseConnection

  constructor(client: pg.ClientBase) {
    this.#connection = new BatchKyselyConnection(client)
  }

  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection
  }

  async init(): Promise<void> {}
  async destroy(): Promise<void> {}
  async releaseConnection(): Promise<void> {}
  async beginTransaction(): Promise<void> {}
  async commitTransaction(): Promise<void> {}
  async rollbackTransaction(): Promise<void> {}
}

class BatchKyselyConnection implements DatabaseConnection {
  readonly #client: pg.ClientBase

  constructor(client: pg.ClientBase) {
    this.#client = client
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    const result = await this.#client.query<Row & pg.QueryResultRow>(query.sql, [...query.parameters])
    const changes = ['INSERT', 'UPDATE', 'DELETE', 'MERGE'].includes(result.command)
    return { rows: result.rows, ...(changes ? { numAffectedRows: BigInt(result.rowCount ?? 0) } : {}) }
  }

  streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    throw new SluiceError(
      'TRANSACTION_CONTROL',
      "stream(): expected execute() on a batch's transaction, received a cursor",
    )
  }
}
