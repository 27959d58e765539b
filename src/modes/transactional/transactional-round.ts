import { type ClaimAnswer, type SentClaim, youngestMs } from '../../claim/claim-answer.ts'
import { Claimer } from '../../claim/claimer.ts'
import { Allowance, Limiter } from '../../claim/limiter.ts'
import { CLAIM, CLAIM_ALONE, type Next, type Round, type RoundDemand, type RoundOptions } from '../../demand/round.ts'
import type { Consumption } from '../../handle/consumption.ts'
import type { TransactionalPlan } from '../../plan/options.ts'
import type { EventAnswer } from '../../stream/event-claimer.ts'
import { GroupClaimer } from '../../stream/group-claimer.ts'
import { allAnswered } from '../../transaction/all-answered.ts'
import { AnswerLimit } from '../../transaction/answer-limit.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { TransactionLimit } from '../../transaction/transaction-settings.ts'
import { Losses, reasonFor } from '../losses.ts'
import { newSettlement } from '../new-settlement.ts'
import type { Runtime } from '../runtime.ts'
import type { ClaimedBatch } from './claimed-batch.ts'
import { TransactionalBatch } from './transactional-batch.ts'

/**
 * Claims, handles and settles each batch in one transaction. The batches of a round follow one another on one connection,
 * and each next claim is sent right behind the COMMIT before it.
 */
export class TransactionalRound implements Round {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<TransactionalPlan>
  readonly #claimer: Claimer | GroupClaimer
  readonly #limiter: Limiter
  readonly #losses: Losses
  readonly #connections = new Set<BatchConnection>()
  /** How many batches are wanted in flight. */
  #concurrency: number

  constructor(runtime: Runtime, consumption: Consumption<TransactionalPlan>) {
    const { queue, concurrency } = consumption.plan
    this.#runtime = runtime
    this.#consumption = consumption
    this.#concurrency = concurrency
    this.#losses = new Losses(queue, runtime.report)
    this.#claimer = this.#newClaimer(consumption.plan)
    this.#limiter = new Limiter({ queue, control: runtime.control, settings: runtime.settings })
  }

  async run(demand: RoundDemand, options: RoundOptions): Promise<Next> {
    const { batchSize, log } = this.#consumption.plan
    if (log !== undefined) return this.#runAllowed(demand, options, undefined)
    const allowed = await this.#limiter.allow(demand, batchSize, this.#concurrency)
    if (allowed === undefined || allowed instanceof Allowance) return this.#runAllowed(demand, options, allowed)
    return { kind: 'sleep', nextDueMs: allowed.nextDueMs, partial: false }
  }

  async #runAllowed(demand: RoundDemand, options: RoundOptions, allowed: Allowance | undefined): Promise<Next> {
    const { gate, inHand } = this.#runtime
    if (!(await inHand.aloneLock.enter(options.alone, demand.draining))) {
      allowed?.close()
      return CLAIM
    }
    const leave = await gate.enter()
    try {
      const connection = await BatchConnection.acquire(this.#runtime.pool, demand.stopping)
      return await this.#runOn(connection, demand, { ...options, allowed }, leave)
    } finally {
      leave()
      inHand.aloneLock.leave()
      allowed?.close()
    }
  }

  #newClaimer({ log, queue, batchSize, concurrency, ordered }: TransactionalPlan): Claimer | GroupClaimer {
    const { control } = this.#runtime
    if (log === undefined) return new Claimer({ queue, batchSize, concurrency, ordered, control })
    const settleParked = (on: BatchConnection, answer: EventAnswer) => this.#settleParked(on, answer)
    return new GroupClaimer({ ...log, queue, batchSize, concurrency, control, settleParked })
  }

  /** Settles a batch of which nothing is to be handled now. */
  async #settleParked(connection: BatchConnection, answer: EventAnswer): Promise<void> {
    const settlement = newSettlement(this.#runtime, this.#consumption.plan, answer)
    await allAnswered(connection.together(() => [settlement.write(connection.execute), connection.commit(this.#limit)]))
  }

  failed(error: unknown, retryInMs?: number): unknown {
    this.#losses.report(error, retryInMs)
    return reasonFor(error)
  }

  resize(concurrency: number): number {
    this.#concurrency = concurrency
    this.#claimer.resize(concurrency)
    return concurrency
  }

  /** A round ends with its last batch. */
  async settled(): Promise<boolean> {
    return false
  }

  cut(): void {
    for (const connection of this.#connections) connection.break('The pipeline has stopped')
  }

  /** `onFound`: the first claim is over and has found messages. */
  async #runOn(
    connection: BatchConnection,
    demand: RoundDemand,
    { alone, onCommitted, allowed }: RoundOptions & { readonly allowed: Allowance | undefined },
    onFound: () => void,
  ): Promise<Next> {
    const { control, connectTimeoutMs } = this.#runtime
    if (demand.paused) {
      connection.release()
      return CLAIM
    }
    this.#connections.add(connection)
    const answers = new AnswerLimit(connection, control, { claimMs: connectTimeoutMs, serverMs: this.#limit.ms })
    const stop = () => connection.stop()
    demand.stopping.addEventListener('abort', stop)
    try {
      let next = await this.#begin(connection, demand, allowed)
      this.#runtime.inHand.findDeadAhead()
      while ('first' in next) {
        const claimed = await this.#take(connection, demand, next)
        answers.claimed(claimed.transaction.pid)
        this.#losses.claimed()
        const nothing = this.#nothingOf(claimed, next, demand, allowed)
        if (nothing !== undefined) {
          await this.#giveBack(connection, claimed)
          return nothing
        }
        if (allowed !== undefined) this.#limiter.found()
        allowed?.use(claimed)
        onFound()
        demand.found({ full: claimed.full, youngestMs: youngestMs(claimed) })
        next = await this.#process(
          { connection, claimed, signal: connection.signal, alone, isLast: alone || allowed !== undefined },
          demand,
          answers,
          onCommitted,
        )
      }
      return next
    } finally {
      answers.stop()
      demand.stopping.removeEventListener('abort', stop)
      this.#connections.delete(connection)
      connection.release()
    }
  }

  /** Undefined: what was claimed is to be handled. */
  #nothingOf(
    { rows: { length }, nextDueMs, partial }: ClaimAnswer,
    { most = length }: SentClaim,
    demand: RoundDemand,
    allowed: Allowance | undefined,
  ): Next | undefined {
    if (length === 0 || demand.draining.aborted || demand.paused) return { kind: 'sleep', nextDueMs, partial }
    // The transaction would keep permits that it has no messages for.
    if (allowed?.takesPermits && length < most) return { ...NOTHING, partial: this.#limiter.again(allowed, length) }
    return undefined
  }

  get #limit(): TransactionLimit {
    return { ms: this.#consumption.plan.timeoutMs * 2 + SERVER_GRACE_MS, serverVersion: this.#runtime.serverVersion() }
  }

  /** Sends the first claim. In a queue with limits it takes the permits first, and is the only one. */
  async #begin(
    connection: BatchConnection,
    demand: RoundDemand,
    allowed: Allowance | undefined,
  ): Promise<Next | SentClaim> {
    const begin = () => connection.begin(this.#limit)
    if (allowed === undefined) {
      return connection.together(() => {
        begin()
        return this.#send(connection, demand)
      })
    }
    begin()
    const { most, ids } = await allowed.lock(connection.execute)
    const some = ids === undefined ? most > 0 : ids.length > 0
    if (!some) {
      await connection.rollback()
      return { ...NOTHING, partial: this.#limiter.again(allowed, 0) }
    }
    if (ids === undefined) return this.#send(connection, demand, most)
    demand.sent()
    return { lease: undefined, most, first: allowed.claim(connection.execute, ids), atOnce: true, scan: undefined }
  }

  #send(connection: BatchConnection, demand: RoundDemand, most?: number): SentClaim {
    demand.sent()
    return this.#claimer.send(connection, undefined, most)
  }

  async #take(connection: BatchConnection, demand: RoundDemand, sent: SentClaim): Promise<ClaimAnswer> {
    try {
      return await this.#claimer.take(connection, sent)
    } finally {
      demand.answered()
    }
  }

  /** Handles, settles and commits one batch. Returns the claim that was sent behind the COMMIT, or what is next. */
  async #process(
    claimedBatch: ClaimedBatch,
    demand: RoundDemand,
    answers: AnswerLimit,
    onCommitted: () => void,
  ): Promise<Next | SentClaim> {
    const { connection, claimed } = claimedBatch
    const batch = new TransactionalBatch(this.#runtime, this.#consumption, claimedBatch)
    let next: SentClaim | undefined
    try {
      const ran = await batch.run()
      if (batch.hasEvidence) this.#claimer.narrow()
      else this.#claimer.widen()
      if (!ran) {
        batch.gaveBack()
        await this.#giveBack(connection, claimed)
        return CLAIM_ALONE
      }
      const ended = connection.together(() => {
        const written = batch.write()
        if (this.#endsWith(claimedBatch, demand)) return [written, connection.commit()]
        const committed = connection.commit(this.#limit)
        // The claim behind the COMMIT is to see them; other runners, which may pass over them until then, see them below.
        this.#claimer.release(batch.untouched)
        answers.restart()
        next = this.#send(connection, demand)
        return [written, committed]
      })
      // The settlement's error first: it is why COMMIT did not commit, and may be read later.
      await allAnswered(ended)
    } catch (error) {
      if (next !== undefined) demand.answered()
      await connection.abandon()
      this.#claimer.unsend(next)
      return this.#lost(batch, claimed, connection.lastWords ?? error)
    }
    this.#claimer.release(batch.untouched)
    this.#losses.settled()
    batch.committed()
    // The next claim sees what is due at once.
    demand.due(batch.dueInMs.filter((inMs) => inMs > 0))
    onCommitted()
    return next ?? CLAIM
  }

  /** Whether the round is over with this batch. */
  #endsWith({ isLast }: ClaimedBatch, demand: RoundDemand): boolean {
    return demand.isLast || isLast || this.#runtime.inHand.aloneLock.contended
  }

  async #giveBack(connection: BatchConnection, claimed: ClaimAnswer): Promise<void> {
    this.#claimer.release(claimed.rows)
    await connection.rollback()
  }

  async #lost(batch: TransactionalBatch, claimed: ClaimAnswer, error: unknown): Promise<Next> {
    this.#claimer.release(claimed.rows)
    await this.#losses.lost(batch, claimed.rows.length, error)
    return CLAIM
  }
}

const NOTHING = { kind: 'sleep', nextDueMs: null, partial: false } as const satisfies Next

/** The server ends a transaction this long after the process should have. */
const SERVER_GRACE_MS = 1_000
