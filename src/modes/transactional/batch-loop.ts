import type { Admission, Admitted } from '../../claim/admission.ts'
import { type ClaimAnswer, type SentClaim, youngestMs } from '../../claim/claim-answer.ts'
import { CLAIM, CLAIM_ALONE, type Next, type RoundDemand } from '../../demand/round.ts'
import type { Consumption } from '../../handle/consumption.ts'
import type { TransactionalPlan } from '../../plan/options.ts'
import type { TransactionalSource } from '../../source/source.ts'
import { limitOf } from '../../source/transaction-limit.ts'
import { allAnswered } from '../../transaction/all-answered.ts'
import { AnswerLimit } from '../../transaction/answer-limit.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { TransactionLimit } from '../../transaction/transaction-settings.ts'
import type { Losses } from '../losses.ts'
import type { Runtime } from '../runtime.ts'
import { TransactionalBatch } from './transactional-batch.ts'

/**
 * The batches of one round, one after another on one connection. Each is claimed, handled and settled in one transaction, and
 * the next claim is sent right behind its COMMIT.
 */
export class BatchLoop {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<TransactionalPlan>
  readonly #source: TransactionalSource
  readonly #losses: Losses
  readonly #demand: RoundDemand
  readonly #admission: Admission
  readonly #onCommitted: () => void
  #connection: BatchConnection | undefined

  constructor(
    runtime: Runtime,
    consumption: Consumption<TransactionalPlan>,
    source: TransactionalSource,
    losses: Losses,
    demand: RoundDemand,
    admission: Admission,
    onCommitted: () => void,
  ) {
    this.#runtime = runtime
    this.#consumption = consumption
    this.#source = source
    this.#losses = losses
    this.#demand = demand
    this.#admission = admission
    this.#onCommitted = onCommitted
  }

  /**
   * @param alone the process has nothing else in flight
   * @param onFound the first claim is over and has found messages
   */
  async run(alone: boolean, onFound: () => void): Promise<Next> {
    const { connections, control, connectTimeoutMs } = this.#runtime
    const { stopping } = this.#demand
    const connection = await BatchConnection.acquire(connections.batches, stopping)
    if (this.#demand.paused) {
      connection.release()
      return CLAIM
    }
    this.#connection = connection
    const answers = new AnswerLimit(connection, control, { claimMs: connectTimeoutMs, serverMs: this.#limit.ms })
    const stop = () => connection.stop()
    stopping.addEventListener('abort', stop)
    try {
      return await this.#runOn(connection, answers, alone, onFound)
    } finally {
      answers.stop()
      stopping.removeEventListener('abort', stop)
      this.#connection = undefined
      connection.release()
    }
  }

  /** Breaks off what the server has not answered. */
  cut(): void {
    this.#connection?.break('The pipeline has stopped')
  }

  async #runOn(connection: BatchConnection, answers: AnswerLimit, alone: boolean, onFound: () => void): Promise<Next> {
    let next: Next | SentClaim = await this.#admission.begin(connection, this.#limit, (terms) =>
      this.#send(connection, terms),
    )
    this.#runtime.inHand.findDeadAhead()
    while ('first' in next) {
      const claimed = await this.#take(connection, next)
      answers.claimed(claimed.transaction.pid)
      this.#losses.claimed()
      const nothing = this.#nothingOf(claimed, next)
      if (nothing !== undefined) {
        await this.#giveBack(connection, claimed)
        return nothing
      }
      this.#admission.took(claimed)
      onFound()
      this.#demand.found({ full: claimed.full, youngestMs: youngestMs(claimed) })
      next = await this.#process(connection, answers, claimed, alone)
    }
    return next
  }

  /** Undefined: what was claimed is to be handled. */
  #nothingOf(claimed: ClaimAnswer, sent: SentClaim): Next | undefined {
    const { draining, paused } = this.#demand
    if (claimed.rows.length === 0 || draining.aborted || paused) return this.#admission.nothing(claimed)
    return this.#admission.goesBack(claimed, sent)
  }

  get #limit(): TransactionLimit {
    return limitOf(this.#consumption.plan, this.#runtime.serverVersion())
  }

  #send(connection: BatchConnection, terms?: Admitted): SentClaim {
    this.#demand.sent()
    return this.#source.send(connection, terms)
  }

  async #take(connection: BatchConnection, sent: SentClaim): Promise<ClaimAnswer> {
    try {
      return await this.#source.take(connection, sent)
    } finally {
      this.#demand.answered()
    }
  }

  /** Handles, settles and commits one batch. Returns the claim that was sent behind the COMMIT, or what is next. */
  async #process(
    connection: BatchConnection,
    answers: AnswerLimit,
    claimed: ClaimAnswer,
    alone: boolean,
  ): Promise<Next | SentClaim> {
    const batch = new TransactionalBatch(this.#runtime, this.#consumption, this.#source, connection, claimed)
    let next: SentClaim | undefined
    try {
      const ran = await batch.run(alone)
      if (batch.hasEvidence) this.#source.narrow()
      else this.#source.widen()
      if (!ran) {
        batch.gaveBack()
        await this.#giveBack(connection, claimed)
        return CLAIM_ALONE
      }
      const ended = connection.together(() => {
        const written = batch.write()
        if (alone || this.#isLast) return [written, connection.commit()]
        const committed = connection.commit(this.#limit)
        // Lowers the floor for the next claim. The release below lowers it again, for claims that passed over these rows before the COMMIT.
        this.#source.release(batch.untouched)
        answers.restart()
        next = this.#send(connection)
        return [written, committed]
      })
      // The settlement's error first: it is why COMMIT did not commit, and may be read later.
      await allAnswered(ended)
    } catch (error) {
      if (next !== undefined) this.#demand.answered()
      await connection.abandon()
      this.#source.unsend(next)
      return this.#lost(batch, claimed, connection.lastWords ?? error)
    }
    this.#source.release(batch.untouched)
    this.#losses.settled()
    batch.committed()
    // The next claim sees what is due at once.
    this.#demand.due(batch.dueInMs.filter((inMs) => inMs > 0))
    this.#onCommitted()
    return next ?? CLAIM
  }

  /** Whether the round is over with the batch that it has. */
  get #isLast(): boolean {
    const { outlet } = this.#consumption
    if (outlet?.isDown === true) return true
    if (this.#admission.isSingle || this.#source.isSingle) return true
    return this.#demand.isLast || this.#runtime.inHand.aloneLock.contended
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
