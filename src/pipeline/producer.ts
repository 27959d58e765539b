import { setMaxListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import pg from 'pg'
import { Backoff, pause } from '../connection/backoff.ts'
import type { Control } from '../connection/control.ts'
import { unreachable } from '../connection/open-client.ts'
import { STOP_MS, within } from '../connection/within.ts'
import { isSluiceError, SluiceError } from '../errors.ts'
import { type Report, toError } from '../telemetry.ts'
import type { Scheduler, Waiter, WakeReason } from '../wake-up/scheduler.ts'
import { AnswerLimit } from './answer-limit.ts'
import { BatchConnection, type TransactionLimit } from './batch-connection.ts'
import type { ClaimedBatch, ConsumedBatch } from './claimed-batch.ts'
import { Claimer, type Look, type SentClaim } from './claimer.ts'
import type { Gate } from './gate.ts'
import type { InHand } from './in-hand.ts'
import type { PipelinePlan } from './options.ts'

export interface ProducerOptions {
  readonly plan: PipelinePlan
  readonly pool: pg.Pool
  readonly connectTimeoutMs: number
  readonly control: Control
  readonly scheduler: Scheduler
  readonly inHand: Pick<InHand, 'lookAhead' | 'isolation'>
  readonly serverVersion: () => number
  /** Shared by the process: a hundred idle queues that look at once take a few connections, not a hundred. */
  readonly gate: Gate
  readonly report: Report
  readonly onEnded?: (() => void) | undefined
  /** Takes a claimed batch over. Demand is the batches that have not ended: no row is claimed without one to spare. */
  readonly consume: (batch: ClaimedBatch) => ConsumedBatch
}

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
  readonly #sleepers: (() => void)[] = []
  readonly #connections = new Set<BatchConnection>()
  #running: Promise<unknown> | undefined
  #looking = 0
  /** Something happened since the last look was sent. */
  #again = false
  /** The last hint was a notification, and has brought nothing yet. */
  #notified = false
  /** How many notifications in a row brought nothing, because others were faster. */
  #beaten = 0
  #deferred: NodeJS.Timeout | undefined

  constructor(options: ProducerOptions) {
    this.#options = options
    const { queue, batchSize, ordered } = options.plan
    this.#claimer = new Claimer({ queue, batchSize, ordered, control: options.control })
    setMaxListeners(0, this.#stop.signal, this.#drain.signal)
  }

  get queue(): string {
    return this.#options.plan.queue
  }

  /** Resolves when a producer that has been started has been drained or stopped. */
  get ended(): Promise<unknown> {
    return this.#running ?? Promise.resolve()
  }

  start(): void {
    this.#options.scheduler.attach(this)
    this.#again = true
    const slots = Array.from({ length: this.#options.plan.concurrency }, (_, at) => this.#slot(at === 0))
    this.#running = Promise.all(slots).finally(this.#options.onEnded)
  }

  /** Claims and handles what is due, batch after batch, until a look finds nothing. For tests: instead of `start`. */
  async runOnce(): Promise<void> {
    try {
      for (let next: Next = 'look'; next !== 'sleep'; ) next = await this.#session(next, () => undefined)
    } catch (thrown) {
      const error = thrown instanceof BatchLost ? thrown.cause : thrown
      throw error instanceof SluiceError || error instanceof pg.DatabaseError ? error : unreachable(error)
    } finally {
      this.#options.onEnded?.()
    }
  }

  /**
   * A hint that there may be something. A notification reaches every process, and one message suffices for one of
   * them: who was beaten to it the last times waits a few milliseconds before looking, while the others look at once.
   */
  wake(reason: WakeReason): void {
    if (reason === 'reconnect') this.#serverIsBack()
    this.#notified = reason === 'notification'
    if (!this.#notified || this.#beaten === 0) this.#look()
    else
      this.#deferred ??= setTimeout(
        () => this.#look(),
        Math.random() * Math.min(2 ** this.#beaten, LONGEST_DEFERRAL_MS),
      )
  }

  /** Sets the flag first; it is cleared before the next claim is sent. */
  #look(): void {
    clearTimeout(this.#deferred)
    this.#deferred = undefined
    this.#again = true
    if (this.#looking === 0) this.#sleepers.pop()?.()
  }

  /** A hint that comes while it is not parked: a look that is under way may be too old to see the reason. */
  lookAgain(reason: WakeReason): void {
    if (reason === 'reconnect') this.#serverIsBack()
    this.#again = true
  }

  /** Who waits before the next attempt to claim need not wait any longer. */
  #serverIsBack(): void {
    this.#back.abort()
    this.#back = new AbortController()
  }

  /** Claims no more, and resolves when all batches in flight are settled. */
  async drain(): Promise<void> {
    this.#drain.abort()
    clearTimeout(this.#deferred)
    this.#options.scheduler.detach(this)
    for (const sleeper of this.#sleepers.splice(0)) sleeper()
    await this.#running
  }

  /**
   * Aborts the handlers' signals, gives back what is not done, and resolves when all is over, {@link STOP_MS} later at the
   * latest. What the server has not answered by then is cut off: a COMMIT may then have taken effect or not, as after a
   * kill.
   */
  async stop(): Promise<void> {
    this.#drain.abort()
    // A handler that has just ended, or a delivery that has just been settled, counts: let the promises between run.
    await setImmediate()
    this.#stop.abort()
    await within(STOP_MS, this.drain(), () => {
      for (const connection of this.#connections) connection.break('The pipeline has stopped')
    })
  }

  async #slot(first: boolean): Promise<void> {
    const backoff = new Backoff(100, 10_000)
    let next: Next = first ? 'look' : 'sleep'
    while (!this.#draining) {
      if (next === 'sleep') await this.#sleep()
      if (this.#draining) return
      try {
        next = await this.#session(next, () => backoff.reset())
        backoff.reset()
      } catch (error) {
        if (this.#stop.signal.aborted && isSluiceError(error, 'STOPPED')) return
        const retryInMs = backoff.next()
        this.#failed(error, retryInMs)
        await pause(retryInMs, AbortSignal.any([this.#drain.signal, this.#back.signal]))
        next = 'look'
      }
    }
  }

  /** A batch that was lost has been reported. */
  #failed(error: unknown, retryInMs: number): void {
    if (error instanceof BatchLost) return
    this.#options.report({ kind: 'claim.failed', queue: this.queue, error: toError(error), retryInMs })
  }

  get #draining(): boolean {
    return this.#drain.signal.aborted
  }

  async #sleep(): Promise<void> {
    await new Promise<void>((resolve) => this.#sleepers.push(resolve))
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
    this.#again = false
    this.#looking += 1
    return this.#claimer.send(connection)
  }

  async #take(connection: BatchConnection, sent: SentClaim): Promise<Look> {
    try {
      return await this.#claimer.take(connection, sent)
    } finally {
      this.#looking -= 1
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
      if (next !== undefined) this.#looking -= 1
      await connection.abandon()
      this.#claimer.unsend(next)
      return this.#lost(batch, look, error)
    }
    this.#claimer.release(batch.untouched)
    batch.committed()
    return next ?? 'look'
  }

  async #giveBack(connection: BatchConnection, look: Look): Promise<void> {
    this.#claimer.release(look.rows)
    await connection.rollback()
  }

  /** Looks again at once where that helps: the messages are isolated. @throws BatchLost */
  async #lost(batch: ConsumedBatch, look: Look, error: unknown): Promise<Next> {
    this.#claimer.release(look.rows)
    const isolated = await batch.lost(error)
    const messages = look.rows.length
    this.#options.report({ kind: 'batch.released', queue: this.queue, messages, error: toError(error) })
    if (isolated) return 'look'
    throw new BatchLost(error)
  }

  #found({ full, nowUs, rows }: Look): void {
    const { scheduler } = this.#options
    this.#notified = false
    this.#beaten = 0
    scheduler.found(this.queue, (nowUs - Math.max(...rows.map((row) => row.dueUs))) / 1_000)
    if (this.#sleepers.length === 0) scheduler.unpark(this)
    else if (full || this.#again) this.#sleepers.pop()?.()
    else this.#park(null)
  }

  #foundNothing({ nextDueMs, cut }: Look): Next {
    if (this.#again || cut) return 'look'
    if (this.#notified) this.#beaten += 1
    this.#notified = false
    if (this.#looking === 0 && !this.#draining) this.#park(nextDueMs)
    return 'sleep'
  }

  #park(nextDueMs: number | null): void {
    if (this.#running !== undefined) this.#options.scheduler.park(this, nextDueMs)
  }
}

/** What a slot does next. Alone: while the process has nothing else in hand. */
type Next = 'sleep' | 'look' | 'look alone'

/** The transaction of a batch was lost, and time is what helps. */
class BatchLost extends Error {
  constructor(cause: unknown) {
    super('The transaction of a batch was lost', { cause })
  }
}

/** The server ends a transaction this long after the process should have. */
const SERVER_GRACE_MS = 1_000

/** A process that is never the first to look still looks this soon after a notification. */
const LONGEST_DEFERRAL_MS = 16
