import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { stateSays } from '../basics/errors/sql-state.ts'
import { wordsOf } from '../basics/errors/words-of.ts'
import { pause } from '../basics/time/pause.ts'
import { executeOn } from '../connection/open-client.ts'
import { SluiceError, stopped, toError } from '../errors.ts'
import type { Constraints } from '../session/constraints.ts'
import { Session } from '../session/session.ts'
import { claimSettings, handlerSettings } from '../table/planner.ts'
import { readDeferrable } from '../table/session/constraints.ts'
import type { Execute } from '../table/statement.ts'
import { type Connections, checkOut } from './check-out.ts'
import { commitFailed, sendCommit } from './commit-answer.ts'
import { Outgoing } from './outgoing.ts'
import { limitSettings, settings, type TransactionLimit } from './transaction-settings.ts'

/**
 * A pooled connection that carries one batch after another, each in a transaction of its own. Statements are
 * pipelined: what need not be awaited is sent behind the one before it, COMMIT and the next BEGIN included.
 */
export class BatchConnection {
  readonly client: pg.PoolClient
  readonly execute: Execute
  readonly #session: Session
  readonly #ending = new AbortController()
  #limit: TransactionLimit | undefined
  #beganAtMs = 0
  #confined = false
  #lost: Error | undefined
  #lastWords: pg.DatabaseError | undefined
  readonly #outgoing: Outgoing
  #abandoned = false
  #savepoints = 0

  constructor(client: pg.PoolClient) {
    this.client = client
    this.#session = Session.of(client)
    this.#outgoing = new Outgoing(client)
    const execute = executeOn(client)
    this.execute = (statement, params) => {
      const { queries } = this.#outgoing
      return this.#outgoing
        .awaited(() => execute(statement, params))
        .catch((error: unknown) => Promise.reject(queries.causeOf(error)))
    }
    client.on('error', this.#onError)
    client.connection.on('errorMessage', this.#onServerError)
  }

  /** @param signal gives up waiting, with its reason; a connection that comes later is closed. */
  static async acquire(pool: Connections, signal?: AbortSignal): Promise<BatchConnection> {
    return new BatchConnection(await checkOut(pool, signal))
  }

  /** Why the connection broke, if it did. */
  get lost(): Error | undefined {
    return this.#lost
  }

  /** Why the server ended the session, if it said so. The driver's error may be of a write that failed after that. */
  get lastWords(): pg.DatabaseError | undefined {
    return this.#lastWords
  }

  /** What the database has of deferrable constraints; undefined: this connection was never asked. */
  get constraints(): Constraints | undefined {
    return this.#session.constraints
  }

  /** Since when the server owes an answer, on the clock of `performance`; undefined: it has answered all of ours. */
  get waitsSinceMs(): number | undefined {
    return this.#outgoing.waitsSinceMs
  }

  /** Aborts, with a SluiceError as its reason, when the connection breaks or {@link stop} is called. */
  get signal(): AbortSignal {
    return this.#ending.signal
  }

  /** The pipeline stops: the running handler is to end. */
  stop(): void {
    this.#ending.abort(stopped('pipeline'))
  }

  /** Breaks the connection. What has been sent and not answered has failed. */
  break(why: string): void {
    this.client.connection.stream.destroy(new Error(why))
  }

  /** Whether a transaction is open, by the server's last answer. */
  get isOpen(): boolean {
    return this.client.getTransactionStatus() !== 'I'
  }

  /** A statement has failed and was not rolled back: the transaction cannot commit. */
  get aborted(): boolean {
    return this.client.getTransactionStatus() === 'E'
  }

  /**
   * Sends BEGIN, and the time after which the server ends the transaction, in case this process no longer can. A
   * database may have shorter limits for its own reasons, on transactions or on idle ones: they would end every batch
   * whose handlers wait for something else. So both are set, for the transaction only, because behind a pooler the
   * session belongs to others too. A failure shows in the statement that follows.
   *
   * @param lockMs how long a statement may wait for a lock. @default as the database says
   */
  begin(limit?: TransactionLimit, lockMs?: number): void {
    this.#began(limit)
    const locks = lockMs === undefined ? '' : `; SET LOCAL lock_timeout = ${lockMs}`
    const all = `${settings(this.#session.deviations, limit)}${locks}`
    this.#outgoing.send(`BEGIN ISOLATION LEVEL READ COMMITTED${all}`)
  }

  /**
   * Sends SAVEPOINT for a handler's statements; the first of a batch gives the planner back its freedom.
   *
   * Two names, used in turn. The end of the previous savepoint is sent together with this one. If it fails, a rollback
   * to this name must fail too; with a single name it would find the previous savepoint and undo writes that were kept.
   *
   * @returns the name: random, so no handler uses it by accident.
   */
  savepoint(): string {
    const name = `${SAVEPOINT}_${this.#savepoints++ % 2}`
    const freed = this.#confined ? `${handlerSettings(this.#session.deviations)}; ` : ''
    this.#confined = false
    this.#outgoing.send(`${freed}SAVEPOINT ${name}`)
    this.#session.strings.reset()
    this.constraints?.refresh(() => readDeferrable(this.execute))
    return name
  }

  /**
   * A query whose answer was not waited for has failed, the end of an earlier handler's savepoint for instance. A handler
   * with a savepoint of its own can bring such a transaction back to life, with the writes of others gone: it must not
   * commit.
   *
   * @throws what the query failed with
   */
  assertWhole(): void {
    const { error } = this.#outgoing.queries
    if (error !== undefined) throw error
  }

  /** The server owes no answer, and no statement has failed without being rolled back. */
  get sound(): boolean {
    return this.client.getTransactionStatus() === 'T' && Reflect.get(this.client, 'readyForQuery') === true
  }

  /**
   * Sends a query with the next one, or at the end of this turn of the event loop. Nothing waits for its answer: if it
   * fails, so does whatever follows in the transaction.
   */
  sendSoon(text: string): void {
    this.#outgoing.sendSoon(text)
  }

  /**
   * What undoes a handler's settings, however it made them, and sets those of the transaction again. Settings return to
   * what the session began with, which is what the transaction began with: Sluice sets nothing for a session. RESET ALL
   * leaves the role and the session's user alone, so these come first.
   */
  get settingsReset(): string {
    const reset = ['RESET SESSION AUTHORIZATION', 'RESET ROLE', 'RESET ALL', ...this.#session.poolerSettings]
    return this.#limit === undefined
      ? reset.join('; ')
      : `${reset.join('; ')}${limitSettings(this.#limit, this.#restMs(this.#limit))}`
  }

  /**
   * Prepares the connection for the settlement, after handlers have used it: takes away what they left on the session
   * that no rollback undoes and no sibling sees, and sends the planner settings of a claim again.
   */
  confine(): void {
    if (this.#confined || this.#limit === undefined) return
    this.#confined = true
    const reset = this.#session.pooled ? UNLISTEN : `${UNLISTEN}; ${UNLOCK}`
    this.#outgoing.send(`${reset}; ${claimSettings(this.#session.deviations)}`)
  }

  /**
   * Commits, and believes only the server's command tag: COMMIT of an aborted transaction is no error to the driver.
   *
   * @param next begins the next transaction with the same message. If COMMIT raises an error there is none, and what
   * was sent behind it holds no locks. If it answers ROLLBACK there is one, which {@link abandon} rolls back. If what
   * follows COMMIT fails, the next statement does, with the same error.
   * @throws SluiceError COMMIT_FAILED
   */
  async commit(next?: TransactionLimit): Promise<void> {
    const { queries } = this.#outgoing
    const text = next === undefined ? 'COMMIT' : `COMMIT AND CHAIN${settings(this.#session.deviations, next)}`
    const sent = this.#outgoing.awaited(() => sendCommit(this.client, text))
    if (next !== undefined) this.#began(next)
    const { queries: nextQueries } = this.#outgoing
    const answer = await sent
    const failed = commitFailed(answer, queries.error)
    if (failed !== undefined) throw failed
    if (answer.error) nextQueries.failed(answer.error)
    // COMMIT may have waited for a standby: the next transaction begins when it is answered.
    this.#beganAtMs = performance.now()
  }

  /** Why a statement failed: a query before it did, if this error says no more than that. */
  causeOf(error: unknown): unknown {
    return this.#outgoing.queries.causeOf(error)
  }

  /** Sends all that `send` sends in one packet: it costs the sender and the server a system call each. */
  together<T>(send: () => T): T {
    const { stream } = this.client.connection
    stream.cork()
    try {
      return send()
    } finally {
      stream.uncork()
    }
  }

  async rollback(): Promise<void> {
    this.#outgoing.dropHeld()
    await this.client.query('ROLLBACK')
  }

  /**
   * Rolls back what is open, behind all that has been sent, so that the rows are free when it resolves: closing the
   * connection, which {@link release} does then, would free them at some later time. Waits no longer than a statement
   * that hangs deserves.
   *
   * @returns whether the server has answered all that was sent
   */
  async abandon(): Promise<boolean> {
    this.#abandoned = true
    if (this.#lost !== undefined) return false
    const late = new AbortController()
    const rolledBack = this.rollback().then(
      () => true,
      () => false,
    )
    const isOver = await Promise.race([rolledBack, pause(ABANDON_MS, late.signal).then(() => false)])
    late.abort()
    return isOver
  }

  /** Gives the connection back to the pool. If it may not be clean, it is closed instead, and its locks go with it. */
  release(): void {
    const clean = this.#lost === undefined && !this.#abandoned && this.client.getTransactionStatus() === 'I'
    this.client.off('error', this.#onError)
    this.client.connection.off('errorMessage', this.#onServerError)
    this.client.release(!clean)
  }

  readonly #onServerError = (error: pg.DatabaseError): void => {
    if (stateSays('endsSession', error.code)) this.#lastWords = error
  }

  #began(limit: TransactionLimit | undefined): void {
    this.#limit = limit
    this.#confined = limit !== undefined
    this.#outgoing.begun()
    this.#beganAtMs = performance.now()
  }

  /**
   * What is left of the transaction's time: the server starts its clock anew when the limit is set. In whole seconds,
   * because pg_stat_statements of PostgreSQL 17 keeps each number as a statement of its own.
   */
  #restMs({ ms }: TransactionLimit): number {
    const seconds = Math.ceil((ms - (performance.now() - this.#beganAtMs)) / 1_000)
    return Math.max(seconds, 1) * 1_000
  }

  readonly #onError = (error: unknown): void => {
    this.#lost ??= toError(error)
    const what = `The batch's connection was lost: ${wordsOf(this.#lastWords ?? error)}. Its messages are free for others`
    this.#ending.abort(new SluiceError('UNREACHABLE', what, { cause: error }))
  }
}

const SAVEPOINT = `sluice_${randomBytes(6).toString('hex')}`

/** A LISTEN counts from the COMMIT on, so this comes early enough after the last handler of a batch. */
const UNLISTEN = 'UNLISTEN *'

/** Session locks outlast a rollback. Behind a pooler the session may hold those of strangers as well, and keeps all. */
const UNLOCK = 'SELECT pg_catalog.pg_advisory_unlock_all()'

const ABANDON_MS = 1_000
