import { setImmediate } from 'node:timers/promises'
import type { Transaction } from 'kysely'
import type pg from 'pg'
import { deepStack } from '../../basics/errors/deep-stack.ts'
import { hasSqlState, IN_FAILED_TRANSACTION } from '../../basics/errors/sql-state.ts'
import { executeOn } from '../../connection/open-client.ts'
import { atSite, type Call, STATEMENT } from '../../enqueue/call.ts'
import { DURING, EXECUTE } from '../../enqueue/own-symbols.ts'
import { SluiceError } from '../../errors.ts'
import { CONSTRAINTS_AS_DECLARED, type Deferrable } from '../../table/session/constraints.ts'
import type { Execute } from '../../table/statement.ts'
import type { BatchConnection } from '../../transaction/batch-connection.ts'
import type { Attempt } from '../attempt.ts'
import type { CallTime } from '../call-time.ts'
import { type EnqueueIn, type RunContext, TransactionalRunContext } from '../run-context.ts'
import { kyselyOn } from './batch-kysely.ts'
import { guardClient } from './guarded-client.ts'
import { HandlerCalls } from './handler-calls.ts'
import type { HandlerTransaction } from './handler-transaction.ts'
import { LentPool } from './lent-pool.ts'
import { UnderWay } from './under-way.ts'

/**
 * Ends a savepoint and keeps what was written. Settings, a role, cursors and temporary tables of the handler would
 * reach the next one, and may not allow the settlement. All of it comes before RELEASE, so that whatever fails does so
 * at the expense of its own message.
 */
function keeping(
  savepoint: string,
  settingsReset: string,
  check: readonly string[],
  declared: readonly string[],
): string {
  const release = `RELEASE SAVEPOINT ${savepoint}`
  return [...check, settingsReset, 'CLOSE ALL', 'DISCARD TEMP', ...declared, release].join('; ')
}

/**
 * Checks deferred constraints before what was written is kept: at COMMIT a violation would undo the whole batch.
 * Deferred triggers run here too, with the handler's settings and role, and not once more at COMMIT; then each
 * constraint is deferred again as it was declared, for the next handler. Where the database is not known to have such
 * constraints, or has some that cannot be named alone, the check is taken back, and COMMIT checks again.
 */
const CHECK = ['SET CONSTRAINTS ALL IMMEDIATE']
const TAKEN_BACK: ReadonlySet<Deferrable | undefined> = new Set(['none', 'namesakes', undefined])
const CHECK_TAKEN_BACK = ['SAVEPOINT sluice_check', ...CHECK, 'ROLLBACK TO SAVEPOINT sluice_check']

/**
 * A batch's connection, lent to one handler. The savepoint is set when the handler first uses it, so one that never
 * does costs nothing; a failed handler is rolled back to it, leaves no trace, and its siblings commit.
 */
export class MessageTransaction implements HandlerTransaction, Attempt {
  readonly #connection: BatchConnection
  readonly #enqueue: EnqueueIn
  #client: pg.PoolClient | undefined
  #kysely: Transaction<unknown> | undefined
  #pool: LentPool | undefined
  #open = true
  #savepoint: string | undefined
  #odd = false
  #constraintsSet = false
  #constraintsMade = false
  // Made when they are first needed: most handlers of a fast queue use no transaction.
  #statements: UnderWay | undefined
  #enqueues: HandlerCalls | undefined
  #violation: SluiceError | undefined
  #failure: unknown

  constructor(connection: BatchConnection, enqueue: EnqueueIn) {
    this.#connection = connection
    this.#enqueue = enqueue
  }

  context(time: CallTime, attempt: number | undefined): RunContext {
    return new TransactionalRunContext(this, time, attempt, this.#enqueue)
  }

  get committed(): boolean {
    return false
  }

  get lost(): Error | undefined {
    return this.#connection.lost
  }

  get client(): pg.PoolClient {
    this.#client ??= guardClient(this.#connection.client, {
      beforeQuery: (text) => this.#beforeQuery(text),
      together: (send) => this.#connection.together(send),
      onViolation: (error) => this.#violated(error),
      onSent: () => this.#sent(),
    })
    return this.#client
  }

  get pool(): pg.Pool {
    this.#pool ??= new LentPool(this.client, (error) => this.#violated(error))
    return this.#pool
  }

  kysely<Database>(): Transaction<Database> {
    this.#kysely ??= kyselyOn<unknown>(this.client)
    return this.#kysely as Transaction<Database>
  }

  query<Row extends pg.QueryResultRow>(sql: string, params: readonly unknown[] = []): Promise<pg.QueryResult<Row>> {
    return this.client.query<Row>(sql, [...params])
  }

  [EXECUTE](call: Call): Execute {
    const execute = executeOn(this.client, this.#connection.client)
    return (statement, params) => {
      if (!this.#open) throw closed(call)
      return execute(statement, params)
    }
  }

  /** Returns the promise for the handler. */
  [DURING]<T>(work: Promise<T>): Promise<T> {
    this.#enqueues ??= new HandlerCalls()
    return this.#enqueues.watch(work)
  }

  get unused(): boolean {
    return this.#savepoint === undefined && this.#violation === undefined && !this.unfinished
  }

  /**
   * The handler has returned: whether it has begun something that it did not await. Of a Kysely that has sent nothing,
   * its first statement may be on its way.
   */
  get unfinished(): boolean {
    if (this.busy || this.#enqueues?.unfinished === true) return true
    return this.#kysely !== undefined && this.#savepoint === undefined
  }

  /**
   * Waits for what a handler that has returned did not await: it counts as if it had.
   *
   * @throws the error of an enqueue among it.
   */
  async finished(): Promise<void> {
    this.#enqueues ??= new HandlerCalls()
    this.#enqueues.returned()
    do {
      await Promise.all([this.#statements?.end(), this.#enqueues.end()])
      // What is sent next in reply to an answer counts too.
      await setImmediate()
    } while (this.busy || this.#enqueues.any)
    this.#enqueues.assertDealtWith()
  }

  /** Whether a statement of the handler's is running on the server. */
  get busy(): boolean {
    return this.#statements?.any === true
  }

  get awaitsAnswer(): boolean {
    return this.busy
  }

  /** Ends the loan: from here on the handler's statements are refused. */
  close(): void {
    this.#open = false
  }

  /**
   * Ends the loan, and resolves when the statements already sent are answered. An enqueue that is still being checked,
   * by a schema that never answers perhaps, is not waited for: its statement would be refused.
   */
  async closed(): Promise<void> {
    this.close()
    if (this.busy) await this.#statements?.end()
  }

  /**
   * Ends the loan and keeps what was written. If nothing is left to be checked, nothing waits for that: it goes with
   * the next message's beginning, or with the settlement. If it fails all the same, the batch is lost, and its messages
   * are tried one by one.
   *
   * @throws SluiceError TRANSACTION_CONTROL if the handler tried to end the transaction; TRANSACTION_FAILED if a
   * statement failed and the handler went on as if nothing had happened; the server's error if a deferred constraint
   * is violated. Then {@link undo} is due.
   */
  async keep(): Promise<void> {
    await this.closed()
    if (this.#violation !== undefined) throw this.#violation
    this.#pool?.requireEnded()
    const savepoint = this.#savepoint
    if (savepoint === undefined) return
    this.#connection.assertWhole()
    const { constraints, settingsReset, sound } = this.#connection
    if (this.#constraintsMade) constraints?.doubt()
    const deferrable = constraints?.deferrable
    if (deferrable === 'none' && sound && !this.#odd)
      return this.#connection.sendSoon(keeping(savepoint, settingsReset, [], []))
    const check = TAKEN_BACK.has(deferrable) ? CHECK_TAKEN_BACK : CHECK
    await this.#end(keeping(savepoint, settingsReset, check, this.#declared(deferrable)))
  }

  /** What sets each constraint back to how it was declared, after {@link CHECK}. */
  #declared(deferrable: Deferrable | undefined): readonly string[] {
    if (deferrable === 'deferred') return ['SET CONSTRAINTS ALL DEFERRED']
    if (deferrable === 'immediate') return []
    return deferrable === 'named alone' || this.#constraintsSet ? [CONSTRAINTS_AS_DECLARED] : []
  }

  async #end(text: string): Promise<void> {
    try {
      await this.#connection.client.query(text)
    } catch (error) {
      if (!hasSqlState(error, IN_FAILED_TRANSACTION)) throw error
      throw new SluiceError(
        'TRANSACTION_FAILED',
        'A statement failed in the transaction, and the handler returned as if it had not. ' +
          'Let the error out, or wrap the statement in a savepoint and roll back to it',
        { cause: this.#failure ?? this.#connection.causeOf(error) },
      )
    }
  }

  /** Ends the loan and rolls back what was written. */
  async undo(): Promise<void> {
    await this.closed()
    const savepoint = this.#savepoint
    if (savepoint === undefined) return
    this.#connection.assertWhole()
    const { client } = this.#connection
    const undone = [`ROLLBACK TO SAVEPOINT ${savepoint}`, `RELEASE SAVEPOINT ${savepoint}`].map((text) =>
      client.query(text),
    )
    await Promise.all(undone).catch((error: unknown) => Promise.reject(this.#connection.causeOf(error)))
  }

  #sent(): (error?: unknown) => void {
    let answered = false
    this.#statements ??= new UnderWay()
    const statements = this.#statements
    statements.begun()
    return (error) => {
      // The driver answers twice for values that it cannot send.
      if (answered) return
      answered = true
      if (error && !hasSqlState(error, IN_FAILED_TRANSACTION)) this.#failure = error
      statements.over()
    }
  }

  #violated(error: SluiceError): void {
    this.#violation ??= error
  }

  #beforeQuery(text: string): void {
    if (!this.#open) throw closed(STATEMENT)
    if (ODD.test(text)) this.#inspect(text)
    this.#savepoint ??= this.#connection.savepoint()
  }

  #inspect(text: string): void {
    this.#odd = true
    this.#constraintsSet ||= SETS_CONSTRAINTS.test(text)
    this.#constraintsMade ||= MAKES_CONSTRAINTS.test(text)
  }
}

/**
 * After such queries the end of the savepoint may fail: it checks what is deferred, drops temporary tables whose
 * constraints may wait to be checked, and may have no time. It also matches some harmless queries, which then pay a
 * round trip.
 */
const ODD = /constraint|deferr|\btemp|timeout/i

/** True of some other queries too, for which it costs a query of the catalog. */
const SETS_CONSTRAINTS = /\bset\s+constraints\b/i
const MAKES_CONSTRAINTS = /deferr/i

/**
 * Warns too: the error may be seen by no code, and it must not bring the process down with other messages in flight.
 */
function closed(call: Call): SluiceError {
  const what = `The handler's transaction ended with the handler: expected no statement after it, received ${call.words}`
  const remedy = 'Await every statement and every enqueue'
  const error = deepStack(() => new SluiceError('TRANSACTION_CLOSED', `${what}. ${remedy}`))
  atSite(error, call)
  if (!warned) process.emitWarning(error.message, { type: 'SluiceWarning', detail: error.stack ?? '' })
  warned = true
  return error
}

/** Once per process. */
let warned = false
