import type pg from 'pg'
import { pause } from '../connection/backoff.ts'
import { executeOn, unreachable } from '../connection/open-client.ts'
import { SluiceError } from '../errors.ts'
import type { Execute } from '../table/statement.ts'
import { toError } from '../telemetry.ts'

/**
 * A pooled connection that carries one batch after another, each in a transaction of its own. Statements are
 * pipelined: what need not be awaited is sent behind the one before it, COMMIT and the next BEGIN included.
 */
export class BatchConnection {
  readonly client: pg.PoolClient
  readonly execute: Execute
  readonly #ending = new AbortController()
  #confined = false
  #lost: Error | undefined
  #abandoned = false

  constructor(client: pg.PoolClient) {
    this.client = client
    this.execute = executeOn(client)
    client.on('error', this.#onError)
  }

  static async acquire(pool: pg.Pool): Promise<BatchConnection> {
    try {
      return new BatchConnection(await pool.connect())
    } catch (error) {
      throw unreachable(error)
    }
  }

  /** Why the connection broke, if it did. */
  get lost(): Error | undefined {
    return this.#lost
  }

  /** Aborts, with a SluiceError as its reason, when the connection breaks or {@link stop} is called. */
  get signal(): AbortSignal {
    return this.#ending.signal
  }

  /** The pipeline stops: the handler in hand is to end. */
  stop(): void {
    this.#ending.abort(new SluiceError('STOPPED', 'The pipeline was told to stop. The message is free for others'))
  }

  /** The server process, for cancelling what it does. */
  get backendPid(): number | undefined {
    const pid: unknown = Reflect.get(this.client, 'processID')
    return typeof pid === 'number' ? pid : undefined
  }

  /** Whether the transaction can still commit: `E` after an error that nobody rolled back. */
  get aborted(): boolean {
    return this.client.getTransactionStatus() === 'E'
  }

  /**
   * Sends BEGIN, and the time after which the server ends the transaction, for the case that this process no longer
   * can. A shorter limit on idle transactions, which a database may have for its own reasons, would end every batch
   * whose handlers wait for something else, so that is set as well; for the transaction only, because behind a
   * pooler the session belongs to others too. A failure shows in the statement that follows.
   *
   * Until a handler comes, the planner may neither sort nor build bitmaps: with stale statistics it would read and sort
   * the backlog of a slot, which the index has in order.
   */
  begin(limit?: { readonly ms: number; readonly serverVersion: number }): void {
    this.#confined = limit !== undefined
    const settings = limit === undefined ? '' : `${bounds(limit)}; ${CLAIM_SETTINGS}`
    this.client.query(`BEGIN ISOLATION LEVEL READ COMMITTED${settings}`).catch(() => undefined)
  }

  /** Sends SAVEPOINT for a handler's statements; the first of a batch gives the planner back its freedom. */
  savepoint(name: string): void {
    const settings = this.#confined ? `${HANDLER_SETTINGS}; ` : ''
    this.#confined = false
    this.client.query(`${settings}SAVEPOINT ${name}`).catch(() => undefined)
  }

  /**
   * Commits, and believes only the server's command tag: COMMIT of an aborted transaction is no error to the driver.
   *
   * @throws SluiceError COMMIT_FAILED
   */
  async commit(): Promise<void> {
    const result = await this.client.query('COMMIT').catch((cause: unknown) => {
      throw new SluiceError(
        'COMMIT_FAILED',
        'COMMIT failed; whether it took effect is unknown if the connection was lost',
        { cause },
      )
    })
    if (result.command !== 'COMMIT') {
      throw new SluiceError('COMMIT_FAILED', `COMMIT: expected the command tag COMMIT, received ${result.command}`)
    }
  }

  async rollback(): Promise<void> {
    await this.client.query('ROLLBACK')
  }

  /**
   * Rolls back what is open, behind all that has been sent, so that the rows are free when it resolves: closing the
   * connection, which {@link release} does then, would free them at some later time. Waits no longer than a statement
   * that hangs deserves.
   */
  async abandon(): Promise<void> {
    this.#abandoned = true
    if (this.#lost !== undefined) return
    const late = new AbortController()
    const rolledBack = this.rollback().catch(() => undefined)
    await Promise.race([rolledBack, pause(ABANDON_MS, late.signal)])
    late.abort()
  }

  /** Gives the connection back to the pool, or, if in doubt about it, closes it: its locks go with it. */
  release(): void {
    const clean = this.#lost === undefined && !this.#abandoned && this.client.getTransactionStatus() === 'I'
    this.client.off('error', this.#onError)
    this.client.release(!clean)
  }

  readonly #onError = (error: unknown): void => {
    this.#lost ??= toError(error)
    const what = "The batch's connection was lost, and its messages are free for others"
    this.#ending.abort(new SluiceError('UNREACHABLE', what, { cause: error }))
  }
}

/** What the planner must keep to while a batch is claimed. */
export const CLAIM_SETTINGS = 'SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off'
const HANDLER_SETTINGS = 'SET LOCAL enable_sort = DEFAULT; SET LOCAL enable_bitmapscan = DEFAULT'

function bounds({ ms, serverVersion }: { readonly ms: number; readonly serverVersion: number }): string {
  const idle = `; SET LOCAL idle_in_transaction_session_timeout = ${Math.ceil(ms)}`
  return serverVersion >= 170_000 ? `${idle}; SET LOCAL transaction_timeout = ${Math.ceil(ms)}` : idle
}

const ABANDON_MS = 1_000
