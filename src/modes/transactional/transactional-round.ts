import type { Admission, Admitted } from '../../claim/admission.ts'
import { type ClaimAnswer, type SentClaim, youngestMs } from '../../claim/claim-answer.ts'
import { CLAIM, CLAIM_ALONE, type Next, type Round, type RoundDemand, type RoundOptions } from '../../demand/round.ts'
import type { Consumption } from '../../handle/consumption.ts'
import type { TransactionalPlan } from '../../plan/options.ts'
import type { TransactionalSource } from '../../source/source.ts'
import { limitOf } from '../../source/transaction-limit.ts'
import { allAnswered } from '../../transaction/all-answered.ts'
import { AnswerLimit } from '../../transaction/answer-limit.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { TransactionLimit } from '../../transaction/transaction-settings.ts'
import { Losses, reasonFor } from '../losses.ts'
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
  readonly #source: TransactionalSource
  readonly #losses: Losses
  readonly #connections = new Set<BatchConnection>()

  constructor(runtime: Runtime, consumption: Consumption<TransactionalPlan>, source: TransactionalSource) {
    const { queue } = consumption.plan
    this.#runtime = runtime
    this.#consumption = consumption
    this.#losses = new Losses(queue, runtime.report)
    this.#source = source
  }

  async run(demand: RoundDemand, options: RoundOptions): Promise<Next> {
    const admission = await this.#source.admit(demand, this.#consumption.plan.batchSize)
    if ('kind' in admission) return admission
    try {
      return await this.#runAdmitted(demand, options, admission)
    } finally {
      admission.close()
    }
  }

  async #runAdmitted(demand: RoundDemand, options: RoundOptions, admission: Admission): Promise<Next> {
    const { gate, inHand } = this.#runtime
    if (!(await inHand.aloneLock.enter(options.alone, demand.draining))) return CLAIM
    const leave = await gate.enter()
    try {
      const connection = await BatchConnection.acquire(this.#runtime.pool, demand.stopping)
      return await this.#runOn(connection, demand, { ...options, onFound: leave }, admission)
    } finally {
      leave()
      inHand.aloneLock.leave()
    }
  }

  failed(error: unknown, retryInMs?: number): unknown {
    this.#losses.report(error, retryInMs)
    return reasonFor(error)
  }

  resize(concurrency: number): number {
    this.#source.resize(concurrency)
    return concurrency
  }

  /** A round ends with its last batch. */
  async settled(): Promise<boolean> {
    return false
  }

  cut(): void {
    for (const connection of this.#connections) connection.break('The pipeline has stopped')
  }

  async #runOn(
    connection: BatchConnection,
    demand: RoundDemand,
    { alone, onCommitted, onFound }: RoundOptions & { readonly onFound: () => void },
    admission: Admission,
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
      let next = await this.#begin(connection, demand, admission)
      this.#runtime.inHand.findDeadAhead()
      while ('first' in next) {
        const claimed = await this.#take(connection, demand, next)
        answers.claimed(claimed.transaction.pid)
        this.#losses.claimed()
        const nothing = this.#nothingOf(claimed, next, demand, admission)
        if (nothing !== undefined) {
          await this.#giveBack(connection, claimed)
          return nothing
        }
        admission.took(claimed)
        onFound()
        demand.found({ full: claimed.full, youngestMs: youngestMs(claimed) })
        next = await this.#process(
          { connection, claimed, signal: connection.signal, alone, isLast: alone || admission.isSingle },
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
  #nothingOf(claimed: ClaimAnswer, sent: SentClaim, demand: RoundDemand, admission: Admission): Next | undefined {
    if (claimed.rows.length === 0 || demand.draining.aborted || demand.paused) return admission.nothing(claimed)
    return admission.goesBack(claimed, sent)
  }

  get #limit(): TransactionLimit {
    return limitOf(this.#consumption.plan, this.#runtime.serverVersion())
  }

  /** Sends the first claim. */
  #begin(connection: BatchConnection, demand: RoundDemand, admission: Admission): Promise<Next | SentClaim> {
    return admission.begin(connection, this.#limit, (terms) => this.#send(connection, demand, terms))
  }

  #send(connection: BatchConnection, demand: RoundDemand, terms?: Admitted): SentClaim {
    demand.sent()
    return this.#source.send(connection, terms)
  }

  async #take(connection: BatchConnection, demand: RoundDemand, sent: SentClaim): Promise<ClaimAnswer> {
    try {
      return await this.#source.take(connection, sent)
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
    const batch = new TransactionalBatch(this.#runtime, this.#consumption, this.#source, claimedBatch)
    let next: SentClaim | undefined
    try {
      const ran = await batch.run()
      if (batch.hasEvidence) this.#source.narrow()
      else this.#source.widen()
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
        this.#source.release(batch.untouched)
        answers.restart()
        next = this.#send(connection, demand)
        return [written, committed]
      })
      // The settlement's error first: it is why COMMIT did not commit, and may be read later.
      await allAnswered(ended)
    } catch (error) {
      if (next !== undefined) demand.answered()
      await connection.abandon()
      this.#source.unsend(next)
      return this.#lost(batch, claimed, connection.lastWords ?? error)
    }
    this.#source.release(batch.untouched)
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
    this.#source.release(claimed.rows)
    await connection.rollback()
  }

  async #lost(batch: TransactionalBatch, claimed: ClaimAnswer, error: unknown): Promise<Next> {
    this.#source.release(claimed.rows)
    await this.#losses.lost(batch, claimed.rows.length, error)
    return CLAIM
  }
}
