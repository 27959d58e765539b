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
  | DatabaseOrPool

declare const OWN: unique symbol

/** The type of `ownTransaction`. A symbol, whose own type a constant would lose: `const own = sluice.ownTransaction`. */
export interface OwnTransaction {
  readonly [OWN]: true
}

type ClientMethod = (...args: never[]) => unknown

/** A `Client` or `PoolClient` of `pg` after BEGIN. A `Pool` has no `escapeIdentifier`. */
interface NodePostgresClient {
  readonly query: ClientMethod
  readonly escapeIdentifier: ClientMethod
}

interface KyselyTransaction {
  readonly isTransaction: true
  readonly executeQuery: ClientMethod
}

interface KnexTransaction {
  readonly raw: ClientMethod
  readonly isCompleted: ClientMethod
}

interface DrizzleTransaction {
  readonly execute: ClientMethod
  readonly rollback: ClientMethod
}

/**
 * The manager that `dataSource.transaction` gives, or a `QueryRunner`. A `DataSource` is initialized, a manager is not.
 */
type TypeOrmTransaction =
  | { readonly '@instanceof': symbol; readonly queryRunner?: object; readonly isInitialized?: never }
  | { readonly isTransactionActive: boolean; readonly query: ClientMethod }

/** The `tx` of an interactive transaction, which cannot connect. */
interface PrismaTransaction {
  readonly $queryRawUnsafe: ClientMethod
  readonly $connect?: never
}

interface PostgresJsTransaction {
  readonly unsafe: ClientMethod
  readonly savepoint: ClientMethod
}

/** The `tx` of a handler. */
interface TransactionOfHandler {
  readonly client: NodePostgresClient
  readonly kysely: ClientMethod
}

declare const BEGIN_A_TRANSACTION_AND_PASS_IT: unique symbol

/**
 * A pool or a database, which is refused: no value has the symbol. It is here for the compiler's error, which compares what
 * was given with the member that has most of its properties, and names what is missing.
 */
interface DatabaseOrPool {
  readonly [BEGIN_A_TRANSACTION_AND_PASS_IT]: never
  readonly totalCount?: unknown
  readonly idleCount?: unknown
  readonly waitingCount?: unknown
  readonly query?: unknown
  readonly execute?: unknown
  readonly select?: unknown
  readonly transaction?: unknown
  readonly raw?: unknown
  readonly schema?: unknown
  readonly client?: unknown
  readonly destroy?: unknown
}
