import type { Gate } from '../../basics/promises/gate.ts'
import { pause } from '../../basics/time/pause.ts'
import { startTimer } from '../../basics/time/start-timer.ts'
import { SluiceError } from '../../errors.ts'
import type { Attempt } from '../../handle/attempt.ts'
import type { CallTime } from '../../handle/call-time.ts'
import { checkFunction } from '../../handle/handler.ts'
import { type EnqueueIn, LeasedRunContext } from '../../handle/run-context.ts'
import { HandlerCalls } from '../../handle/transaction/handler-calls.ts'
import type { HandlerTransaction } from '../../handle/transaction/handler-transaction.ts'
import { MessageTransaction } from '../../handle/transaction/message-transaction.ts'
import { refuseUnrunQuery } from '../../handle/unrun-query.ts'
import { decideAcked } from '../../settle/decide.ts'
import { sendDecisions } from '../../settle/send-decisions.ts'
import type { ServerTransaction } from '../../table/claim/claim.ts'
import { leftUntouched } from '../../table/rows-missing.ts'
import { lockLeased, readLeased } from '../../table/settle/leases.ts'
import type { Execute } from '../../table/statement.ts'
import { endTransaction, readTransaction } from '../../table/worker/server-process.ts'
import { allAnswered } from '../../transaction/all-answered.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { Runtime } from '../runtime.ts'
import type { LeasedMessage } from './leased-message.ts'
import { leasedRows } from './settle/leased-rows.ts'

export interface LeasedAttemptOptions {
  readonly runtime: Runtime
  readonly queue: string
  readonly enqueue: EnqueueIn
  /** Limits how many handlers have a transaction at a time: each takes a connection. */
  readonly gate: Gate
  /** Renews the lease at once. */
  readonly renew: (messages: readonly LeasedMessage[]) => Promise<void>
}

/** A call of a handler with no transaction open: there is nothing to keep or to undo. */
export class LeasedAttempt implements Attempt {
  readonly #options: LeasedAttemptOptions
  readonly #messages: readonly LeasedMessage[]
  #open = true
  /** Made with the first of them: most handlers have none. */
  #calls: HandlerCalls | undefined
  #running: Promise<unknown> | undefined
  #connection: BatchConnection | undefined
  #tx: MessageTransaction | undefined
  /** Its transaction, as soon as the server has said which. */
  #begun: ServerTransaction | undefined
  /** Rejects when the transaction is over before its work is: with its handler, or because its own time is up. */
  #undone: PromiseWithResolvers<never> | undefined

  constructor(options: LeasedAttemptOptions, messages: readonly LeasedMessage[]) {
    this.#options = options
    this.#messages = messages
  }

  get committed(): boolean {
    return this.#messages.every((leased) => leased.isCommitted)
  }

  get lost(): Error | undefined {
    return this.#messages.find((leased) => leased.lost !== undefined)?.lost
  }

  get busy(): boolean {
    return false
  }

  get awaitsAnswer(): boolean {
    return this.#tx?.busy === true
  }

  get unused(): boolean {
    return !this.unfinished && this.#connection === undefined
  }

  get unfinished(): boolean {
    return this.#calls?.unfinished === true
  }

  async finished(): Promise<void> {
    this.#calls?.returned()
    await this.#calls?.end()
    this.#calls?.assertDealtWith()
  }

  context(time: CallTime, attempt: number | undefined): LeasedRunContext {
    const key = attempt === undefined ? undefined : `${this.#options.queue}/${this.#messages[0]?.id}`
    return new LeasedRunContext(this, time, attempt, key)
  }

  get endsAtMs(): number {
    return Math.min(...this.#messages.map((leased) => leased.endsAtMs))
  }

  extend(time: CallTime): Promise<void> {
    return this.#watched(this.#extend(time))
  }

  transaction<T>(work: (tx: HandlerTransaction) => T | Promise<T>): Promise<T> {
    return this.#watched(this.#transaction(work))
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
    // It waits for its turn or a connection: there is nothing to roll back, and what comes is refused.
    if (this.#connection === undefined) return
    await this.#end(this.#connection, ended())
    await this.#running
  }

  /**
   * The server notices a connection that is cut when it writes to it the next time: a statement would go on until then, with
   * its locks. So the control connection ends the session too. If that fails, only the server's own limits end it.
   */
  async #end(connection: BatchConnection, reason: SluiceError): Promise<void> {
    this.#undone?.reject(reason)
    connection.break(reason.message)
    if (this.#begun === undefined) return
    const { execute } = this.#options.runtime.control
    const sent = endTransaction(execute, this.#begun).catch(() => undefined)
    const over = new AbortController()
    await Promise.race([sent, pause(MOST_END_MS, over.signal)])
    over.abort()
  }

  #watched<T>(call: Promise<T>): Promise<T> {
    this.#calls ??= new HandlerCalls()
    return this.#calls.watch(call)
  }

  async #extend(time: CallTime): Promise<void> {
    this.#assertOpen('extend')
    await this.#options.renew(this.#messages)
    if (this.lost !== undefined) throw this.lost
    time.restart()
  }

  async #transaction<T>(work: (tx: HandlerTransaction) => T | Promise<T>): Promise<T> {
    checkFunction('transaction', work)
    this.#assertOpen('transaction')
    this.#undone = Promise.withResolvers()
    this.#undone.promise.catch(() => undefined)
    const over = Promise.withResolvers<void>()
    this.#running = over.promise
    try {
      return await this.#waitAndRun(work, this.#undone.promise)
    } finally {
      this.#running = undefined
      over.resolve()
    }
  }

  async #waitAndRun<T>(work: (tx: HandlerTransaction) => T | Promise<T>, undone: Promise<never>): Promise<T> {
    const leave = await this.#options.gate.enter()
    try {
      // While it runs, its lease is not renewed: its own lock keeps the row, and a renewal would wait for that.
      if (this.#open && this.#leftMs < LONGEST_MS) await this.#options.renew(this.#messages)
      this.#assertInHand()
      const connection = await BatchConnection.acquire(this.#options.runtime.connections.transactions)
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
    const ms = Math.max(LEAST_MS, Math.min(LONGEST_MS, this.#leftMs))
    // Before version 17 the server does not end it while a statement runs, and never one that sends statement after statement.
    const late = startTimer(() => void this.#end(connection, tooLong(ms)), ms)
    try {
      connection.begin({ ms, serverVersion })
      this.#begun = undefined
      // If it fails, so does what follows.
      readTransaction(connection.execute).then(
        (begun) => {
          this.#begun = begun
        },
        () => undefined,
      )
      this.#assertAll(await lockLeased(connection.execute, queue, this.#messages, serverVersion))
      this.#assertInHand()
      for (const leased of this.#messages) leased.lock()
      const tx = new MessageTransaction(connection, enqueue)
      this.#tx = tx
      // It may never end. What it does after its time counts for nothing.
      const result = await Promise.race([work(tx), undone])
      refuseUnrunQuery('transaction', result)
      if (tx.unfinished) await tx.finished()
      await tx.keep()
      connection.confine()
      await this.#remove(connection.execute)
      // This process may have stood still until now.
      this.#assertAll(this.#messages.flatMap((leased) => (leased.hasRunOut ? [] : [leased.id])))
      clearTimeout(late)
      await connection.commit()
      for (const leased of this.#messages) leased.commit()
      return result
    } catch (error) {
      await connection.abandon()
      throw error
    } finally {
      clearTimeout(late)
      for (const leased of this.#messages) leased.unlock()
    }
  }

  /** How long all of the leases last. */
  get #leftMs(): number {
    return this.endsAtMs - performance.now()
  }

  /** @throws SluiceError LEASE_LOST */
  #assertAll(ids: readonly string[]): void {
    if (ids.length === this.#messages.length) return
    for (const leased of this.#messages) {
      leased.unlock()
      if (!ids.includes(leased.id)) leased.lose()
    }
    throw this.lost ?? ended()
  }

  /**
   * Removes the messages. If a locked one is gone, the handler has removed it through its `tx`.
   *
   * @throws SluiceError ROWS_MISSING
   */
  async #remove(execute: Execute): Promise<void> {
    const { runtime, queue } = this.#options
    const acked = this.#messages.map((leased) => decideAcked(leased))
    // Nothing of it depends on the clock.
    const { written, all } = sendDecisions(execute, leasedRows(runtime, queue, this.#messages, 0), acked)
    await allAnswered(all)
    const ids = (await Promise.all(written)).flat()
    const missing = this.#messages.filter(({ id }) => !ids.includes(id))
    if (missing.length === 0) return
    const [left] = await readLeased(execute, queue, missing, runtime.serverVersion())
    if (left !== undefined) throw leftUntouched(queue, left)
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
  return new SluiceError('TRANSACTION_CLOSED', 'The handler has ended: expected no further call, received one')
}

function tooLong(ms: number): SluiceError {
  const what = `transaction(): expected to end within ${Math.round(ms)} ms, which is 30 s or what was left of the lease, received no end`
  return new SluiceError(
    'TRANSACTION_CLOSED',
    `${what}. Do everything that belongs together in one, and the rest before`,
  )
}

/** The transaction of a handler ends after this time, or with the lease if that ends before. */
const LONGEST_MS = 30_000
const LEAST_MS = 1_000
/** How long it waits for the control connection. Without its answer the message is settled all the same. */
const MOST_END_MS = 1_000
