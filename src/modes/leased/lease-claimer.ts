import { type ClaimAnswer, youngestMs } from '../../claim/claim-answer.ts'
import { Claimer } from '../../claim/claimer.ts'
import type { Ran, RoundDemand } from '../../demand/round.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import type { ClaimedRow } from '../../table/claim/claim.ts'
import { leaseOf } from '../../table/claim/lease.ts'
import { AnswerLimit } from '../../transaction/answer-limit.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { Consumption, Runtime } from '../runtime.ts'

/** Messages that a claim has leased. */
export interface LeasedClaim {
  readonly batchId: number
  readonly lease: string
  readonly answer: ClaimAnswer
}

/** Claims messages under a lease: each claim is a short transaction, whose COMMIT leaves together with the claim. */
export class LeaseClaimer {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<LeasedPlan>
  readonly #claimer: Claimer
  #connection: BatchConnection | undefined

  constructor(runtime: Runtime, consumption: Consumption<LeasedPlan>) {
    const { queue, batchSize } = consumption.plan
    this.#runtime = runtime
    this.#consumption = consumption
    this.#claimer = new Claimer({ queue, batchSize, concurrency: 1, ordered: false, control: runtime.control })
  }

  /** @param onFound the claim has found messages */
  async claim(demand: RoundDemand, most: number, onFound: () => void): Promise<LeasedClaim | Ran> {
    const { pool, control, connectTimeoutMs, inHand } = this.#runtime
    const connection = await BatchConnection.acquire(pool, demand.stopping)
    this.#connection = connection
    const answers = new AnswerLimit(connection, control, { claimMs: connectTimeoutMs, serverMs: CLAIM_MS })
    const release = () => connection.release()
    const batchId = inHand.reserve()
    try {
      const { result, ended } = await this.#claimOn({ connection, batchId, answers }, demand, most, onFound)
      const released = ended.then(release, release)
      // The transaction that COMMIT has begun ends while the handlers run. One that has found nothing has locked slots, which
      // the next claim, on another connection, would take for those of another process.
      if ('kind' in result) await released
      return result
    } catch (error) {
      await connection.abandon()
      // What was sent may have taken effect all the same.
      inHand.abandon(batchId)
      release()
      throw connection.lastWords ?? error
    } finally {
      answers.stop()
      this.#connection = undefined
    }
  }

  /** Breaks off what the server has not answered. */
  cut(): void {
    this.#connection?.break('The pipeline has stopped')
  }

  /** Messages went back to their places: claims must see them again. */
  release(rows: readonly ClaimedRow[]): void {
    this.#claimer.release(rows)
  }

  async #claimOn(
    { connection, batchId, answers }: ClaimOn,
    demand: RoundDemand,
    most: number,
    onFound: () => void,
  ): Promise<{ readonly result: LeasedClaim | Ran; readonly ended: Promise<void> }> {
    const { inHand } = this.#runtime
    const lease = leaseOf(inHand.workerId, batchId)
    const sent = this.#send(connection, demand, lease, most)
    inHand.findDeadAhead()
    const answer = await this.#claimer.take(connection, sent.claim).finally(() => demand.answered())
    answers.claimed(answer.transaction.pid)
    const { rows, nextDueMs, partial } = answer
    const isSent = sent.committed !== undefined && answer === (await sent.claim.first)
    // Another server answered than the one that the floors are of: what was leased is not handled.
    if (answer.void && isSent) await this.#abandon(batchId, sent.committed)
    if (rows.length === 0 || (demand.draining.aborted && !isSent)) {
      this.#claimer.release(rows)
      return { result: { kind: 'nothing', nextDueMs, partial }, ended: connection.rollback() }
    }
    onFound()
    demand.found({ full: answer.full, youngestMs: youngestMs(answer) })
    try {
      await (isSent ? sent.committed : this.#commit(connection))
    } catch (error) {
      this.#claimer.release(rows)
      throw error
    }
    return { result: { batchId, lease, answer }, ended: isSent ? connection.rollback() : Promise.resolve() }
  }

  #send(connection: BatchConnection, demand: RoundDemand, lease: string, most: number) {
    const limit = { ms: CLAIM_MS, serverVersion: this.#runtime.serverVersion() }
    const { leaseMs: ms } = this.#consumption.plan
    const sent = connection.together(() => {
      connection.begin(limit)
      connection.sendSoon(WITHOUT_DISK)
      demand.sent()
      const terms = { lease, ms, most, serverVersion: limit.serverVersion }
      const claim = this.#claimer.send(connection, terms)
      return { claim, committed: claim.atOnce ? connection.commit(limit) : undefined }
    })
    sent.committed?.catch(() => undefined)
    return sent
  }

  /** The setting ended with the transaction that found nothing, and whose COMMIT has begun this one. */
  #commit(connection: BatchConnection): Promise<void> {
    connection.sendSoon(WITHOUT_DISK)
    return connection.commit()
  }

  async #abandon(batchId: number, committed: Promise<void> | undefined): Promise<void> {
    await committed?.catch(() => undefined)
    this.#runtime.inHand.abandon(batchId)
  }
}

/** A lease that is lost with a server that crashes is a message that is delivered again, and nothing worse. */
const WITHOUT_DISK = 'SET LOCAL synchronous_commit = off'

interface ClaimOn {
  readonly connection: BatchConnection
  /** The number under which the claim records what it leases. */
  readonly batchId: number
  readonly answers: AnswerLimit
}

/**
 * What the server may take for a claim. One whose COMMIT is lost in the network keeps the slots that it has locked for so
 * long: with 30 seconds, messages with keys waited for that.
 */
const CLAIM_MS = 10_000
