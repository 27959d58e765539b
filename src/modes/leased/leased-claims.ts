import type { Admission, Admitted } from '../../claim/admission.ts'
import { type ClaimAnswer, youngestMs } from '../../claim/claim-answer.ts'
import { CLAIM, type Next, type RoundDemand } from '../../demand/round.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import type { LeasedSource, SentLease } from '../../source/leased-source.ts'
import { AnswerLimit } from '../../transaction/answer-limit.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import { type TransactionLimit, WITHOUT_DISK } from '../../transaction/transaction-settings.ts'
import type { Runtime } from '../runtime.ts'

/** Messages that a claim has leased. */
export interface LeasedClaim {
  readonly batchId: number
  readonly lease: string
  readonly answer: ClaimAnswer
}

/** Gets what the claims of a round have leased. */
export interface Taker {
  /** A claim has found messages. */
  found(): void
  /** They are leased. Called once for each claim that has found any, one after another. */
  take(claimed: LeasedClaim): Promise<void>
}

/**
 * The claims of one round of leased mode, on one connection: one, or in a backlog several in one packet. Each is a short
 * transaction, and its COMMIT leaves together with it, unless permits must be leased in between.
 */
export class LeasedClaims {
  readonly #runtime: Runtime
  readonly #plan: LeasedPlan
  readonly #source: LeasedSource
  readonly #demand: RoundDemand
  readonly #admission: Admission
  readonly #taker: Taker
  /** Not handed over yet. */
  readonly #sent = new Set<SentLease>()
  #connection: BatchConnection | undefined
  /** A claim has found nothing. */
  #missed = false
  /** The last claim found as many as it asked for. */
  full = false

  constructor(
    runtime: Runtime,
    plan: LeasedPlan,
    source: LeasedSource,
    demand: RoundDemand,
    admission: Admission,
    taker: Taker,
  ) {
    this.#runtime = runtime
    this.#plan = plan
    this.#source = source
    this.#demand = demand
    this.#admission = admission
    this.#taker = taker
  }

  /** @param most the most messages of all claims together */
  async run(most: number): Promise<Next> {
    const { connections, control, connectTimeoutMs, inHand } = this.#runtime
    const connection = await BatchConnection.acquire(connections.claims, this.#demand.stopping)
    this.#connection = connection
    const answers = new AnswerLimit(connection, control, { claimMs: connectTimeoutMs, serverMs: CLAIM_MS })
    try {
      this.#demand.sent()
      const next = await this.#claim(connection, answers, most).finally(() => this.#demand.answered())
      const released = release(connection)
      // A claim that found nothing still has slot locks, also one of several whose COMMIT is on its way: our next claim, on
      // another connection, would mistake them for another process's. Otherwise the transaction that COMMIT has begun ends
      // while the handlers run.
      if (this.#missed) await released
      return next
    } catch (error) {
      this.#abandon(await connection.abandon())
      connection.release()
      throw connection.lastWords ?? error
    } finally {
      for (const { batchId } of this.#sent) inHand.unreserve(batchId)
      answers.stop()
      this.#connection = undefined
    }
  }

  /** Breaks off what the server has not answered. */
  cut(): void {
    this.#connection?.break('The pipeline has stopped')
  }

  async #claim(connection: BatchConnection, answers: AnswerLimit, most: number): Promise<Next> {
    const admission = this.#admission
    const sent = await admission.begin(connection, this.#limit, (terms) => this.#send(connection, most, terms))
    if ('kind' in sent) {
      this.#missed = true
      return sent
    }
    this.#runtime.inHand.findDeadAhead()
    let next: Next = CLAIM
    for (const claim of sent) {
      // In a backlog no claim looks further than its first answer.
      const isOnly = sent.length === 1
      const answer = isOnly ? await this.#source.take(connection, claim) : await claim.claim.first
      answers.claimed(answer.transaction.pid)
      this.full = answer.full && !admission.isSingle
      if (await this.#take(connection, claim, answer)) continue
      this.#missed = true
      if (isOnly) next = admission.nothing(answer)
    }
    return next
  }

  #send(connection: BatchConnection, most: number, terms: Admitted): readonly CommittedLease[] {
    const { batchSize } = this.#plan
    if (this.#admission.isSingle) return [this.#keep(this.#source.send(connection, terms))]
    const sent: CommittedLease[] = []
    for (let left = most; left > 0; left -= batchSize) {
      const claim = this.#source.send(connection, { most: Math.min(left, batchSize) })
      // The rest of a sweep may follow in the transaction that this begins.
      const committed = claim.claim.atOnce ? connection.commit(this.#limit) : undefined
      committed?.catch(() => undefined)
      sent.push(this.#keep({ ...claim, committed }))
    }
    return sent
  }

  #keep(claim: CommittedLease): CommittedLease {
    this.#sent.add(claim)
    return claim
  }

  /** Hands over what a claim has leased. Returns whether it has leased anything. */
  async #take(connection: BatchConnection, claim: CommittedLease, answer: ClaimAnswer): Promise<boolean> {
    const { batchId, lease } = claim
    const { rows, full } = answer
    if (rows.length === 0) {
      // Another server answered than the one that the floors are of: what was leased is not handled.
      if (answer.void) await this.#abandonWhenCommitted(claim)
      return false
    }
    const { draining, paused } = this.#demand
    // A message from the sweep is not committed: its transaction is still open.
    const isCommitted = claim.committed !== undefined && answer === (await claim.claim.first)
    if (!isCommitted && (draining.aborted || paused)) {
      this.#source.release(rows)
      return false
    }
    const committed = isCommitted ? claim.committed : this.#commit(connection, claim, answer)
    this.#taker.found()
    this.#demand.found({ full, youngestMs: youngestMs(answer) })
    try {
      await committed
    } catch (error) {
      this.#source.release(rows)
      throw error
    }
    this.#sent.delete(claim)
    await this.#taker.take({ batchId, lease, answer })
    return true
  }

  /** Its permits know the leases before they are committed. */
  async #commit(connection: BatchConnection, { lease }: SentLease, { rows }: ClaimAnswer): Promise<void> {
    await this.#admission.lease(connection, rows, lease)
    // The setting ended with the transaction that found nothing, if a COMMIT has begun this one.
    connection.sendSoon(WITHOUT_DISK)
    await connection.commit()
  }

  /** A process that is suspended in a sweep, before its COMMIT, keeps what it has locked no longer than a lease would. */
  get #limit(): TransactionLimit {
    const idleMs = Math.max(LEAST_IDLE_MS, Math.min(CLAIM_MS, this.#plan.leaseMs))
    return { ms: CLAIM_MS, idleMs, serverVersion: this.#runtime.serverVersion() }
  }

  /** What was sent may have taken effect, also where its answer says that it has not. */
  #abandon(isOver: boolean): void {
    const left = [...this.#sent]
    for (const claim of left) this.#source.unsend(claim)
    this.#runtime.inHand.abandon(
      left.map(({ batchId }) => batchId),
      isOver,
    )
  }

  async #abandonWhenCommitted({ batchId, committed }: CommittedLease): Promise<void> {
    await committed?.catch(() => undefined)
    this.#runtime.inHand.abandon([batchId], true)
  }
}

/** Resolves when the connection is free. */
function release(connection: BatchConnection): Promise<void> {
  const free = () => connection.release()
  return connection.isOpen ? connection.rollback().then(free, free) : Promise.resolve(free())
}

interface CommittedLease extends SentLease {
  /** Its COMMIT, where that left together with it. */
  readonly committed?: Promise<void> | undefined
}

/**
 * What the server may take for a claim. One whose COMMIT is lost in the network keeps the slots that it has locked for so
 * long: with 30 seconds, messages with keys waited for that.
 */
const CLAIM_MS = 10_000

/** A busy process may need so long to send its next statement, however short its leases are. */
const LEAST_IDLE_MS = 1_000
