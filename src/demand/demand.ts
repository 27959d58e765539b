import { setMaxListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { Claimer } from '../claim/claimer.ts'
import type { Look, SentClaim } from '../claim/look.ts'
import { Backoff, pause } from '../connection/backoff.ts'
import { STOP_MS, within } from '../connection/within.ts'
import { isSluiceError } from '../errors.ts'
import { BatchConnection } from '../transaction/batch-connection.ts'
import type { TransactionLimit } from '../transaction/transaction-settings.ts'
import type { Waiter, WakeReason } from '../wake-up/scheduler.ts'
import { AnswerLimit } from './answer-limit.ts'
import type { ConsumedBatch } from './claimed-batch.ts'
import { Hints } from './hints.ts'
import { Losses } from './losses.ts'
import type { ProducerOptions } from './producer-options.ts'
import { reasonFor } from './session-error.ts'

/**
 * The demand-driven source of a pipeline (a producer in the sense of GenStage). It has one slot per batch that may be
 * in flight; each claims, waits until its batch is settled, and claims again, sending the next claim right behind the
 * COMMIT. A slot that finds nothing sleeps, and the last one to do so parks the queue with the scheduler.
 */
export class Producer implements Waiter {
  readonly #options: ProducerOptions
  readonly #claimer: Claimer
  readonly #stop = new AbortController()
  readonly #drain = new AbortController()
  #back = new AbortController()
  readonly #hints = new Hints()
  readonly #connections = new Set<BatchConnection>()
  #running: Promise<unknown> | undefined
  /** It goes on when a look finds nothing. */
  #stays = false
  #stopped: Promise<void> | undefined
  readonly #losses: Losses

  constructor(options: ProducerOptions) {
    this.#options = options
    this.#losses = new Losses(options.plan.queue, options.report)
    const { queue, batchSize, concurrency, ordered } = options.plan
    this.#claimer = new Claimer({ queue, batchSize, concurrency, ordered, control: options.control })
    setMaxListeners(0, this.#stop.signal, this.#drain.signal)
  }

  get queue(): string {
    return this.#options.plan.queue
  }

  /** Resolves when a producer that runs has ended. */
  get ended(): Promise<unknown> {
    return this.#running ?? Promise.resolve()
  }

  start(): void {
    this.#stays = true
    this.#options.scheduler.attach(this)
    this.#hints.lookAgain()
    const slots = Array.from({ length: this.#options.plan.concurrency }, (_, at) => this.#slot(at === 0))
    this.#running = Promise.all(slots).finally(this.#options.onEnded)
  }

  /** Instead of `start`: claims and handles what is due, batch after batch, until a look finds nothing or it is told to end. */
  runOnce(): Promise<void> {
    const run = this.#untilNothing().finally(this.#options.onEnded)
    this.#running = run.catch(() => undefined)
    return run
  }

  /** A hint that there may be something. */
  wake(reason: WakeReason): void {
    if (reason === 'reconnect') this.#serverIsBack()
    this.#hints.wake(reason)
  }

  /** A hint that comes while it is not parked. */
  lookAgain(reason: WakeReason): void {
    if (reason === 'reconnect') this.#serverIsBack()
    this.#hints.lookAgain()
  }

  /** Who waits before the next attempt to claim need not wait any longer. */
  #serverIsBack(): void {
    this.#back.abort()
    this.#back = new AbortController()
  }

  /** Claims no more, and resolves when all batches in flight are settled. */
  async drain(): Promise<void> {
    this.#drain.abort()
    this.#options.scheduler.detach(this)
    this.#hints.wakeAll()
    if (this.#running === undefined) this.#options.onEnded?.()
    await this.#running
  }

  /**
   * Aborts the handlers' signals, gives back what is not done, and resolves when all is over, {@link STOP_MS} later at the
   * latest. What the server has not answered by then is cut off: a COMMIT may then have taken effect or not, as after a
   * kill. Called again, it waits for the same end.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stopNow()
    return this.#stopped
  }

  async #stopNow(): Promise<void> {
    this.#drain.abort()
    // A handler that has just ended, or a delivery that has just been settled, counts: let the promises between run.
    await setImmediate()
    this.#stop.abort()
    await within(STOP_MS, this.drain(), () => {
      for (const connection of this.#connections) connection.break('The pipeline has stopped')
    })
  }

  async #untilNothing(): Promise<void> {
    try {
      for (let next: Next = 'look'; next !== 'sleep' && !this.#draining; )
        next = await this.#session(next, () => undefined)
    } catch (error) {
      if (this.#stop.signal.aborted && isSluiceError(error, 'STOPPED')) return
      this.#losses.report(error)
      throw reasonFor(error)
    }
  }

  async #slot(first: boolean): Promise<void> {
    const backoff = new Backoff(100, 10_000)
    let next: Next = first ? 'look' : 'sleep'
    while (!this.#draining) {
      if (next === 'sleep') await this.#hints.sleep()
      if (this.#draining) return
      try {
        next = await this.#session(next, () => backoff.reset())
        backoff.reset()
      } catch (error) {
        if (this.#stop.signal.aborted && isSluiceError(error, 'STOPPED')) return
        const retryInMs = backoff.next()
        this.#losses.report(error, retryInMs)
        await pause(retryInMs, AbortSignal.any([this.#drain.signal, this.#back.signal]))
        next = 'look'
      }
    }
  }

  get #draining(): boolean {
    return this.#drain.signal.aborted
  }

  /**
   * Batch after batch on one connection, until a look finds nothing. A queue that is never empty has sessions that never
   * end, so what succeeds in between is told to `onCommitted`.
   */
  async #session(how: Next, onCommitted: () => void): Promise<Next> {
    const { gate, inHand } = this.#options
    const alone = how === 'look alone'
    if (!(await inHand.isolation.enter(alone, this.#drain.signal))) return 'sleep'
    const leave = await gate.enter()
    try {
      return await this.#looks(alone, leave, onCommitted)
    } finally {
      leave()
      inHand.isolation.leave()
    }
  }

  /** `found`: the first look is over and has found messages. */
  async #looks(alone: boolean, found: () => void, onCommitted: () => void): Promise<Next> {
    const { pool, control, connectTimeoutMs } = this.#options
    const connection = await BatchConnection.acquire(pool, this.#stop.signal)
    this.#connections.add(connection)
    const answers = new AnswerLimit(connection, control, { claimMs: connectTimeoutMs, serverMs: this.#limit.ms })
    const stop = () => connection.stop()
    this.#stop.signal.addEventListener('abort', stop)
    try {
      let sent: Next | SentClaim = connection.together(() => {
        connection.begin(this.#limit)
        return this.#send(connection)
      })
      this.#options.inHand.lookAhead()
      while (typeof sent === 'object') {
        const look = await this.#take(connection, sent)
        answers.claimed(look.transaction.pid)
        if (look.rows.length === 0 || this.#draining) {
          await this.#giveBack(connection, look)
          return this.#foundNothing(look)
        }
        found()
        this.#found(look)
        sent = await this.#process(connection, look, alone, answers)
        onCommitted()
      }
      return sent
    } finally {
      answers.stop()
      this.#stop.signal.removeEventListener('abort', stop)
      this.#connections.delete(connection)
      connection.release()
    }
  }

  get #limit(): TransactionLimit {
    const { plan, serverVersion } = this.#options
    return { ms: plan.timeoutMs * 2 + SERVER_GRACE_MS, serverVersion: serverVersion() }
  }

  #send(connection: BatchConnection): SentClaim {
    this.#hints.sent()
    return this.#claimer.send(connection)
  }

  async #take(connection: BatchConnection, sent: SentClaim): Promise<Look> {
    try {
      return await this.#claimer.take(connection, sent)
    } finally {
      this.#hints.answered()
    }
  }

  /** Handles, settles and commits one batch, and sends the next claim behind the COMMIT. Returns it, or what is next. */
  async #process(
    connection: BatchConnection,
    look: Look,
    alone: boolean,
    answers: AnswerLimit,
  ): Promise<Next | SentClaim> {
    const batch = this.#options.consume({ connection, look, signal: connection.signal, alone })
    let next: SentClaim | undefined
    try {
      if (!(await batch.run())) {
        batch.gaveBack()
        await this.#giveBack(connection, look)
        return 'look alone'
      }
      if (batch.isolated) this.#claimer.narrow()
      else this.#claimer.widen()
      const ended = connection.together(() => {
        const written = batch.write()
        if (this.#draining || alone || this.#options.inHand.isolation.contended) return [written, connection.commit()]
        const committed = connection.commit(this.#limit)
        // The claim behind the COMMIT is to see them; other slots, which may pass over them until then, see them below.
        this.#claimer.release(batch.untouched)
        answers.restart()
        next = this.#send(connection)
        return [written, committed]
      })
      // The settlement's error first: it is why COMMIT did not commit, and may be read later.
      for (const sent of await Promise.allSettled(ended)) {
        if (sent.status === 'rejected') throw sent.reason
      }
    } catch (error) {
      if (next !== undefined) this.#hints.answered()
      await connection.abandon()
      this.#claimer.unsend(next)
      return this.#lost(batch, look, connection.lastWords ?? error)
    }
    this.#claimer.release(batch.untouched)
    this.#losses.settled()
    batch.committed()
    return next ?? 'look'
  }

  async #giveBack(connection: BatchConnection, look: Look): Promise<void> {
    this.#claimer.release(look.rows)
    await connection.rollback()
  }

  async #lost(batch: ConsumedBatch, look: Look, error: unknown): Promise<Next> {
    this.#claimer.release(look.rows)
    await this.#losses.lost(batch, look.rows.length, error)
    return 'look'
  }

  #found({ full, nowUs, rows }: Look): void {
    const { scheduler } = this.#options
    this.#hints.found()
    scheduler.found(this.queue, (nowUs - Math.max(...rows.map((row) => row.dueUs))) / 1_000)
    if (!this.#hints.sleeping) scheduler.unpark(this)
    else if (full || this.#hints.again) this.#hints.wakeOne()
    else this.#park(null)
  }

  #foundNothing({ nextDueMs, cut }: Look): Next {
    if (this.#hints.again || cut) return 'look'
    this.#hints.foundNothing()
    if (!this.#hints.looking && !this.#draining) this.#park(nextDueMs)
    return 'sleep'
  }

  #park(nextDueMs: number | null): void {
    if (this.#stays) this.#options.scheduler.park(this, nextDueMs)
  }
}

/** What a slot does next. Alone: while the process has nothing else in hand. */
type Next = 'sleep' | 'look' | 'look alone'

/** The server ends a transaction this long after the process should have. */
const SERVER_GRACE_MS = 1_000
