import type { Gate } from '../../basics/gate.ts'
import { SluiceError } from '../../errors.ts'
import type { Attempt } from '../../handle/attempt.ts'
import { checkFunction } from '../../handle/handler.ts'
import type { EnqueueIn, LeasedRunContext, RunTurn } from '../../handle/run-context.ts'
import type { HandlerTransaction } from '../../handle/transaction/handler-transaction.ts'
import { MessageTransaction } from '../../handle/transaction/message-transaction.ts'
import { keepKeysLeased } from '../../table/settle/keep-keys.ts'
import { lockLeased } from '../../table/settle/settle-leased.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { Runtime } from '../runtime.ts'
import type { LeasedMessage } from './leased-message.ts'
import { ackAll } from './settle/ack.ts'

export interface LeasedAttemptOptions {
  readonly runtime: Runtime
  readonly queue: string
  readonly enqueue: EnqueueIn
  /** Lets so many handlers have a transaction at a time: each takes a connection. */
  readonly gate: Gate
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
  /** Rejects when the call of the handler is over before its transaction is. */
  #undone: PromiseWithResolvers<never> | undefined

  constructor(options: LeasedAttemptOptions, messages: readonly LeasedMessage[]) {
    this.#options = options
    this.#messages = messages
  }

  get committed(): boolean {
    return this.#messages.every((leased) => leased.committed)
  }

  get lost(): Error | undefined {
    return this.#messages.find((leased) => leased.lost !== undefined)?.lost
  }

  get busy(): boolean {
    return false
  }

  get unused(): boolean {
    return this.#running === undefined && this.#connection === undefined
  }

  get unfinished(): boolean {
    return this.#running !== undefined
  }

  async finished(): Promise<void> {
    await this.#running
  }

  context(turn: RunTurn, attempt: number | undefined): LeasedRunContext {
    const messages = this.#messages
    const { queue } = this.#options
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
    // It waits for a place or a connection: there is nothing to roll back, and what comes is refused.
    if (this.#connection === undefined) return
    this.#undone?.reject(ended())
    this.#connection.break('The handler has ended')
    await this.#running
  }

  async #extend(turn: RunTurn): Promise<void> {
    this.#assertOpen('extend')
    await this.#options.renew(this.#messages)
    if (this.lost !== undefined) throw this.lost
    turn.restart()
  }

  async #transaction<T>(work: (tx: HandlerTransaction) => T | Promise<T>): Promise<T> {
    checkFunction('transaction', work)
    this.#assertOpen('transaction')
    this.#undone = Promise.withResolvers()
    this.#undone.promise.catch(() => undefined)
    const running = this.#waitAndRun(work, this.#undone.promise).finally(() => {
      this.#running = undefined
    })
    this.#running = running.catch(() => undefined)
    return running
  }

  async #waitAndRun<T>(work: (tx: HandlerTransaction) => T | Promise<T>, undone: Promise<never>): Promise<T> {
    const leave = await this.#options.gate.enter()
    try {
      // While it runs, its lease is not renewed: its own lock keeps the row, and a renewal would wait for that.
      if (this.#open && this.#leftMs < LONGEST_MS) await this.#options.renew(this.#messages)
      this.#assertInHand()
      const connection = await BatchConnection.acquire(this.#options.runtime.pool)
      try {
        return await this.#runOn(connection, work, undone)
      } finally {
        this.#connection = undefined
        connection.release()
      }
    } finally {
      leave()
    }
  }

  async #runOn<T>(
    connection: BatchConnection,
    work: (tx: HandlerTransaction) => T | Promise<T>,
    undone: Promise<never>,
  ): Promise<T> {
    const { runtime, queue, enqueue } = this.#options
    const serverVersion = runtime.serverVersion()
    this.#assertInHand()
    this.#connection = connection
    try {
      connection.begin({ ms: Math.max(LEAST_MS, Math.min(LONGEST_MS, this.#leftMs)), serverVersion })
      this.#assertAll(await lockLeased(connection.execute, queue, this.#messages, serverVersion))
      this.#assertInHand()
      for (const leased of this.#messages) leased.inTransaction = true
      const tx = new MessageTransaction(connection, enqueue)
      // It may never end. What it does after its time counts for nothing.
      const result = await Promise.race([work(tx), undone])
      if (tx.unfinished) await tx.finished()
      await tx.keep()
      connection.confine()
      const kept = this.#messages.filter(({ message }) => message.keepsKey)
      if (kept.length > 0) await keepKeysLeased(connection.execute, queue, kept, serverVersion)
      this.#assertAll(await ackAll(connection.execute, runtime, queue, this.#messages))
      await connection.commit()
      for (const leased of this.#messages) leased.committed = true
      return result
    } catch (error) {
      await connection.abandon()
      throw error
    } finally {
      for (const leased of this.#messages) leased.inTransaction = false
    }
  }

  /** How long all of the leases last. */
  get #leftMs(): number {
    return Math.min(...this.#messages.map((leased) => leased.endsAtMs)) - performance.now()
  }

  /** @throws SluiceError LEASE_LOST */
  #assertAll(ids: readonly string[]): void {
    if (ids.length === this.#messages.length) return
    for (const leased of this.#messages) {
      leased.inTransaction = false
      if (!ids.includes(leased.id)) leased.lose()
    }
    throw this.lost ?? ended()
  }

  /** @throws SluiceError LEASE_LOST, TRANSACTION_CLOSED */
  #assertInHand(): void {
    if (this.lost !== undefined) throw this.lost
    if (!this.#open) throw ended()
  }

  #assertOpen(call: 'extend' | 'transaction'): void {
    this.#assertInHand()
    if (this.#running === undefined && !this.committed) return
    const remedy = 'It settles the message: do all that belongs together in one'
    throw new SluiceError(
      'TRANSACTION_CONTROL',
      `${call}(): expected no call once transaction() has begun, received one. ${remedy}`,
    )
  }
}

function ended(): SluiceError {
  return new SluiceError('TRANSACTION_CLOSED', 'The handler has ended: expected no call after that, received one')
}

/** The server ends the transaction of a handler after this time, or with the lease if that ends before. */
const LONGEST_MS = 30_000
const LEAST_MS = 1_000
