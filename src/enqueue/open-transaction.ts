import type { ownTransaction } from './enqueue.ts'

/**
 * What a message can be enqueued in: an open transaction of one of these clients, by its shape, because Sluice imports
 * none of them. A pool, or a client that has no transaction, is refused by the compiler where its type tells it apart,
 * and when the call is made in any case.
 */
export type OpenTransaction =
  | NodePostgresClient
  | KyselyTransaction
  | KnexTransaction
  | DrizzleTransaction
  | TypeOrmTransaction
  | PrismaTransaction
  | PostgresJsTransaction
  | TransactionOfHandler
  | typeof ownTransaction

type Method = (...args: never[]) => unknown

/** A `Client` or `PoolClient` of `pg` after BEGIN. A `Pool` escapes nothing. */
interface NodePostgresClient {
  readonly query: Method
  readonly escapeIdentifier: Method
}

interface KyselyTransaction {
  readonly isTransaction: true
  readonly executeQuery: Method
}

interface KnexTransaction {
  readonly raw: Method
  readonly isCompleted: Method
}

interface DrizzleTransaction {
  readonly execute: Method
  readonly rollback: Method
}

/**
 * The manager that `dataSource.transaction` gives, or a `QueryRunner`. A `DataSource` is initialized, a manager is not.
 */
type TypeOrmTransaction =
  | { readonly '@instanceof': symbol; readonly queryRunner?: object; readonly isInitialized?: never }
  | { readonly isTransactionActive: boolean; readonly query: Method }

/** The `tx` of an interactive transaction, which cannot connect. */
interface PrismaTransaction {
  readonly $queryRawUnsafe: Method
  readonly $connect?: never
}

interface PostgresJsTransaction {
  readonly unsafe: Method
  readonly savepoint: Method
}

/** The `tx` of a handler. */
interface TransactionOfHandler {
  readonly client: NodePostgresClient
  readonly kysely: Method
}
