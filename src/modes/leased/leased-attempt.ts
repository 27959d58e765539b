import { SluiceError } from '../../errors.ts'
import type { Attempt } from '../../handle/attempt.ts'
import type { EnqueueIn, LeasedRunContext, RunTurn } from '../../handle/run-context.ts'
import { type HandlerTransaction, MessageTransaction } from '../../handle/transaction/message-transaction.ts'
import { ackLeased, lockLeased } from '../../table/settle/settle-leased.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { Runtime } from '../runtime.ts'
import type { LeasedMessage } from './leased-message.ts'

export interface LeasedAttemptOptions {
  readonly runtime: Runtime
  readonly queue: string
  readonly enqueue: EnqueueIn
  /** How long a transaction of the handler's may last. */
  readonly timeoutMs: number
  /** Renews the lease at once. */
  readonly renew: (messages: readonly LeasedMessage[]) => Promise<void>
}

/** A call of a handler with no transaction open: there is nothing to keep or to undo. */
export class LeasedAttempt implements Attempt {
  readonly #options: LeasedAttemptOptions
  readonly #messages: readonly LeasedMessage[]
  #open = true
  #running: Promise<unknown> | undefined
  #connection: BatchConnection | undefined

  constructor(options: LeasedAttemptOptions, messages: readonly LeasedMessage[]) {
    this.#options = options
    this.#messages = messages
  }

  get lost(): Error | undefined {
    return this.#messages.find((leased) => leased.lost !== undefined)?.lost
  }

  get busy(): boolean {
    return false
  }

  get unfinished(): boolean {
    return this.#running !== undefined
  }

  async finished(): Promise<void> {
    await this.#running
  }

  context(turn: RunTurn, attempt: number | undefined): LeasedRunContext {
    const messages = this.#messages
    const [{ queue }] = [this.#options]
    return {
      attempt,
      idempotencyKey: attempt === undefined ? undefined : `${queue}/${messages[0]?.id}`,
      get leaseUntil() {
        const endsAtMs = Math.min(...messages.map((leased) => leased.endsAtMs))
        return new Date(Date.now() + (endsAtMs - performance.now()))
      },
      extend: () => this.#extend(turn),
      transaction: (work) => this.#transaction(work),
      get signal() {
        return turn.signal
      },
    }
  }

  close(): void {
    this.#open = false
  }

  async keep(): Promise<void> {
    this.close()
  }

  /** A transaction that is open, because the time is up for example, is rolled back before the message is settled. */
  async undo(): Promise<void> {
    this.close()
    this.#connection?.break('The handler has ended')
    await this.#running
  }

  async #extend(turn: RunTurn): Promise<void> {
    this.#assertOpen()
    await this.#options.renew(this.#messages)
    if (this.lost !== undefined) throw this.lost
    turn.restart()
  }

  #transaction<T>(work: (tx: HandlerTransaction) => T | Promise<T>): Promise<T> {
    const running = this.#runTransaction(work).finally(() => {
      this.#running = undefined
    })
    this.#running = running.catch(() => undefined)
    return running
  }

  async #runTransaction<T>(work: (tx: HandlerTransaction) => T | Promise<T>): Promise<T> {
    this.#assertOpen()
    const { runtime, queue, enqueue, timeoutMs } = this.#options
    const connection = await BatchConnection.acquire(runtime.pool)
    const serverVersion = runtime.serverVersion()
    this.#connection = connection
    for (const leased of this.#messages) leased.inTransaction = true
    try {
      connection.begin({ ms: timeoutMs + SERVER_GRACE_MS, serverVersion })
      this.#assertAll(await lockLeased(connection.execute, queue, this.#messages, serverVersion))
      const tx = new MessageTransaction(connection, enqueue)
      const result = await work(tx)
      if (tx.unfinished) await tx.finished()
      await tx.keep()
      connection.confine()
      this.#assertAll(await ackLeased(connection.execute, queue, this.#messages, serverVersion))
      await connection.commit()
      for (const leased of this.#messages) leased.committed = true
      return result
    } catch (error) {
      await connection.abandon()
      throw error
    } finally {
      this.#connection = undefined
      for (const leased of this.#messages) leased.inTransaction = false
      connection.release()
    }
  }

  /** @throws SluiceError LEASE_LOST */
  #assertAll(ids: readonly string[]): void {
    if (ids.length === this.#messages.length) return
    for (const leased of this.#messages) if (!ids.includes(leased.id)) leased.lose()
    throw this.lost ?? new Error('expected a lost lease')
  }

  #assertOpen(): void {
    if (this.lost !== undefined) throw this.lost
    if (this.#messages.some((leased) => leased.committed || leased.inTransaction)) throw once()
    if (!this.#open) throw new SluiceError('TRANSACTION_CLOSED', 'The handler has ended: expected no call after that')
  }
}

function once(): SluiceError {
  return new SluiceError(
    'TRANSACTION_CONTROL',
    'transaction(): expected one call per message, received another. It settles the message: do all that belongs together in one',
  )
}

/** The server ends a transaction this long after the process should have. */
const SERVER_GRACE_MS = 1_000
