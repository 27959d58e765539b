import type { Admission } from '../../claim/admission.ts'
import { type ClaimAnswer, type LeaseTerms, type SentClaim, youngestMs } from '../../claim/claim-answer.ts'
import { Claimer } from '../../claim/claimer.ts'
import { CLAIM, type Next, type RoundDemand } from '../../demand/round.ts'
import type { Consumption } from '../../handle/consumption.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import type { ClaimedRow } from '../../table/claim/claim.ts'
import { leaseOf } from '../../table/claim/lease.ts'
import { AnswerLimit } from '../../transaction/answer-limit.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { TransactionLimit } from '../../transaction/transaction-settings.ts'
import type { Runtime } from '../runtime.ts'

/** Messages that a claim has leased. */
export interface LeasedClaim {
  readonly batchId: number
  readonly lease: string
  readonly answer: ClaimAnswer
}

/** Who gets what is claimed. */
export interface Taker {
  /** A claim has found messages. */
  found(): void
  /** They are leased. Called once for each claim that has found any, one after another. */
  take(claimed: LeasedClaim): Promise<void>
}

/** Claims messages under a lease: each claim is a short transaction, whose COMMIT leaves together with the claim. */
export class LeaseClaimer {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<LeasedPlan>
  readonly #claimer: Claimer
  #connection: BatchConnection | undefined
  /** The last claim found as many as it asked for. */
  #full = false

  constructor(runtime: Runtime, consumption: Consumption<LeasedPlan>) {
    const { queue, batchSize } = consumption.plan
    this.#runtime = runtime
    this.#consumption = consumption
    this.#claimer = new Claimer({ queue, batchSize, concurrency: 1, ordered: false, control: runtime.control })
  }

  /**
   * How many claims are worth sending at once. In a backlog several leave in one packet, so that with batches of one the
   * server does not wait for the process between them: nearly twice as many messages per second.
   */
  get atOnce(): number {
    return this.#full ? MOST_AT_ONCE : 1
  }

  /**
   * @param sizes the most messages of each claim
   * @param admission under limits it is one claim
   */
  async claim(demand: RoundDemand, sizes: readonly number[], taker: Taker, admission: Admission): Promise<Next> {
    const { pool, control, connectTimeoutMs } = this.#runtime
    const connection = await BatchConnection.acquire(pool, demand.stopping)
    this.#connection = connection
    const answers = new AnswerLimit(connection, control, { claimMs: connectTimeoutMs, serverMs: CLAIM_MS })
    const release = () => connection.release()
    const claims: SentLease[] = []
    try {
      const on = { connection, answers, claims }
      demand.sent()
      const { ran, ended } = await this.#claimBy(on, demand, sizes, taker, admission).finally(() => demand.answered())
      const released = ended.then(release, release)
      // The transaction that COMMIT has begun ends while the handlers run. A claim that found nothing still has slot
      // locks, which our next claim, on another connection, would mistake for another process's.
      if (ran.kind === 'sleep') await released
      return ran
    } catch (error) {
      this.#abandon(claims, await connection.abandon())
      release()
      throw connection.lastWords ?? error
    } finally {
      for (const { batchId } of claims) this.#runtime.inHand.unreserve(batchId)
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

  #claimBy(
    on: ClaimOn,
    demand: RoundDemand,
    sizes: readonly number[],
    taker: Taker,
    admission: Admission,
  ): Promise<Ended> {
    const [most = 1] = sizes
    if (admission.isSingle) return this.#claimAdmitted(on, demand, admission, taker)
    return this.#full ? this.#claimBacklog(on, demand, sizes, taker) : this.#claimOne(on, demand, most, taker)
  }

  /** The permits are locked before the claim, and know the leases before they are committed. */
  async #claimAdmitted(on: ClaimOn, demand: RoundDemand, admission: Admission, taker: Taker): Promise<Ended> {
    const { connection, answers, claims } = on
    const claim = await admission.begin<SentLease>(connection, this.#limit, {
      open: (most = 1) => this.#sendOpen(connection, most),
      given: (most, send) => this.#sendGiven(connection, most, send),
    })
    if ('kind' in claim) return { ran: claim, ended: Promise.resolve() }
    claims.push(claim)
    this.#runtime.inHand.findDeadAhead()
    const answer = await this.#claimer.take(connection, claim.sent)
    answers.claimed(answer.transaction.pid)
    this.#full = false
    const { rows } = answer
    const dropped = demand.draining.aborted || demand.paused
    if (dropped) this.#claimer.release(rows)
    else if (rows.length > 0) {
      await admission.lease(connection, rows, claim.lease)
      claim.committed = this.#commit(connection)
    }
    if (dropped || !(await this.#take(demand, taker, claim, answer)))
      return { ran: admission.nothing(answer), ended: connection.rollback() }
    return { ran: CLAIM, ended: Promise.resolve() }
  }

  #sendGiven(connection: BatchConnection, most: number, send: (lease: LeaseTerms) => Promise<ClaimAnswer>): SentLease {
    const { terms, batchId } = this.#newLease(most)
    connection.sendSoon(WITHOUT_DISK)
    const sent = { lease: terms, most, first: send(terms), atOnce: true, scan: undefined }
    return { batchId, lease: terms.lease, sent, committed: undefined, isTaken: false }
  }

  /** No claim looks further in their transactions, so the last COMMIT begins none. */
  async #claimBacklog(on: ClaimOn, demand: RoundDemand, sizes: readonly number[], taker: Taker): Promise<Ended> {
    const { connection, answers, claims } = on
    const limit = this.#limit
    connection.together(() => {
      connection.begin(limit)
      for (const [at, most] of sizes.entries())
        claims.push(this.#send(connection, most, at === sizes.length - 1 ? undefined : limit))
    })
    this.#runtime.inHand.findDeadAhead()
    for (const claim of claims) {
      if (claim.committed === undefined) throw new TypeError('expected a claim that is sent at once')
      const answer = await claim.sent.first
      answers.claimed(answer.transaction.pid)
      this.#full = answer.full
      await this.#take(demand, taker, claim, answer)
    }
    return { ran: CLAIM, ended: Promise.resolve() }
  }

  /** Where the claim finds nothing, the rest of a sweep follows it, in the transaction that its COMMIT has begun. */
  async #claimOne(on: ClaimOn, demand: RoundDemand, most: number, taker: Taker): Promise<Ended> {
    const { connection, answers, claims } = on
    const limit = this.#limit
    const claim = connection.together(() => {
      connection.begin(limit)
      return this.#send(connection, most, limit)
    })
    claims.push(claim)
    this.#runtime.inHand.findDeadAhead()
    const answer = await this.#claimer.take(connection, claim.sent)
    answers.claimed(answer.transaction.pid)
    this.#full = answer.full
    const { rows, nextDueMs, partial } = answer
    // Otherwise it is of the sweep, whose transaction is open.
    const isSent = claim.committed !== undefined && answer === (await claim.sent.first)
    const dropped = !isSent && (demand.draining.aborted || demand.paused)
    if (dropped) this.#claimer.release(rows)
    else if (!isSent && rows.length > 0) claim.committed = this.#commit(connection)
    if (dropped || !(await this.#take(demand, taker, claim, answer)))
      return { ran: { kind: 'sleep', nextDueMs, partial }, ended: connection.rollback() }
    return { ran: CLAIM, ended: isSent ? connection.rollback() : Promise.resolve() }
  }

  /** Hands over what a claim has leased. Returns whether it has leased anything. */
  async #take(demand: RoundDemand, taker: Taker, claim: SentLease, answer: ClaimAnswer): Promise<boolean> {
    const { batchId, lease, committed } = claim
    const { rows, full } = answer
    if (rows.length === 0) {
      // Another server answered than the one that the floors are of: what was leased is not handled.
      if (answer.void) await this.#abandonWhenCommitted(claim)
      return false
    }
    taker.found()
    demand.found({ full, youngestMs: youngestMs(answer) })
    try {
      await committed
    } catch (error) {
      this.#claimer.release(rows)
      throw error
    }
    claim.isTaken = true
    await taker.take({ batchId, lease, answer })
    return true
  }

  /** A process that is suspended in a sweep, before its COMMIT, keeps what it has locked no longer than a lease would. */
  get #limit(): TransactionLimit {
    const { leaseMs } = this.#consumption.plan
    const idleMs = Math.max(LEAST_IDLE_MS, Math.min(CLAIM_MS, leaseMs))
    return { ms: CLAIM_MS, idleMs, serverVersion: this.#runtime.serverVersion() }
  }

  /** @param next begins the next transaction with the COMMIT */
  #send(connection: BatchConnection, most: number, next: TransactionLimit | undefined): SentLease {
    const claim = this.#sendOpen(connection, most)
    if (claim.sent.atOnce) claim.committed = connection.commit(next)
    claim.committed?.catch(() => undefined)
    return claim
  }

  #sendOpen(connection: BatchConnection, most: number): SentLease {
    const { terms, batchId } = this.#newLease(most)
    connection.sendSoon(WITHOUT_DISK)
    const sent = this.#claimer.send(connection, terms)
    return { batchId, lease: terms.lease, sent, committed: undefined, isTaken: false }
  }

  #newLease(most: number): { readonly terms: LeaseTerms; readonly batchId: number } {
    const { inHand, serverVersion } = this.#runtime
    const { leaseMs: ms } = this.#consumption.plan
    const batchId = inHand.reserve()
    return { terms: { lease: leaseOf(inHand.workerId, batchId), ms, most, serverVersion: serverVersion() }, batchId }
  }

  /** The setting ended with the transaction that found nothing, and whose COMMIT has begun this one. */
  #commit(connection: BatchConnection): Promise<void> {
    connection.sendSoon(WITHOUT_DISK)
    return connection.commit()
  }

  /** What was sent may have taken effect, also where its answer says that it has not. */
  #abandon(claims: readonly SentLease[], isOver: boolean): void {
    const left = claims.filter(({ isTaken }) => !isTaken)
    for (const { sent } of left) this.#claimer.unsend(sent)
    this.#runtime.inHand.abandon(
      left.map(({ batchId }) => batchId),
      isOver,
    )
  }

  async #abandonWhenCommitted({ batchId, committed }: SentLease): Promise<void> {
    await committed?.catch(() => undefined)
    this.#runtime.inHand.abandon([batchId], true)
  }
}

/** How a round ended, and when the connection is free. */
interface Ended {
  readonly ran: Next
  readonly ended: Promise<void>
}

/** A claim on its way, and the number under which it records what it leases. */
interface SentLease {
  readonly batchId: number
  readonly lease: string
  readonly sent: SentClaim
  /** Undefined while its transaction is open. */
  committed: Promise<void> | undefined
  isTaken: boolean
}

/** A lease that is lost with a server that crashes is a message that is delivered again, and nothing worse. */
const WITHOUT_DISK = 'SET LOCAL synchronous_commit = off'

interface ClaimOn {
  readonly connection: BatchConnection
  readonly answers: AnswerLimit
  /** In the order in which they were sent. */
  readonly claims: SentLease[]
}

/** More would keep the handlers of the first waiting while the server carries out the others. */
const MOST_AT_ONCE = 8

/**
 * What the server may take for a claim. One whose COMMIT is lost in the network keeps the slots that it has locked for so
 * long: with 30 seconds, messages with keys waited for that.
 */
const CLAIM_MS = 10_000

/** A busy process may need so long to send its next statement, however short its leases are. */
const LEAST_IDLE_MS = 1_000
