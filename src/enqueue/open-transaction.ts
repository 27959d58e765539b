/**
 * The open transaction that a message is enqueued in. Sluice imports none of these clients, so the type describes their
 * shapes. The compiler refuses a pool, or a client without a transaction, where the type shows the difference; the call
 * itself refuses it always.
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
  | OwnTransaction

declare const OWN: unique symbol

/** The type of `ownTransaction`. A symbol, whose own type a constant would lose: `const own = sluice.ownTransaction`. */
export interface OwnTransaction {
  readonly [OWN]: true
}

type Method = (...args: never[]) => unknown

/** A `Client` or `PoolClient` of `pg` after BEGIN. A `Pool` has no `escapeIdentifier`. */
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
