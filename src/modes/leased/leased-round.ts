import { Gate } from '../../basics/promises/gate.ts'
import type { Admission } from '../../claim/admission.ts'
import { oldestMs } from '../../claim/claim-answer.ts'
import type { EvidenceById } from '../../crash/in-hand.ts'
import { isLastChance } from '../../crash/last-chance.ts'
import { CLAIM, CLAIM_ALONE, type Next, type Round, type RoundDemand } from '../../demand/round.ts'
import type { Consumption } from '../../handle/consumption.ts'
import { type LeasedPlan, MOST_TRANSACTIONS } from '../../plan/options.ts'
import { type Decided, dueInMs } from '../../settle/decision.ts'
import { LeasedSource } from '../../source/leased-source.ts'
import type { CancelRequest } from '../../table/worker/cancel-requests.ts'
import { Losses, reasonFor } from '../losses.ts'
import type { Runtime } from '../runtime.ts'
import { LeasedBatch } from './leased-batch.ts'
import { type LeasedClaim, LeasedClaims } from './leased-claims.ts'
import { LeasedMessage } from './leased-message.ts'
import { type Reservation, Room } from './room.ts'
import { Renewals } from './settle/renewals.ts'
import { Settler } from './settle/settler.ts'

/**
 * Claims messages under a lease in a short transaction, and has them handled with none open. A round is one claim, or
 * several in a backlog: it ends while its handlers run, and the next one waits until there is room for a handler.
 */
export class LeasedRound implements Round {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<LeasedPlan>
  readonly #source: LeasedSource
  /** Of the last round. */
  #claims: LeasedClaims | undefined
  readonly #losses: Losses
  readonly #room: Room
  /** A message has been settled, or given back, since the last run began: a claim of that run may not have seen it. */
  #endedSince = false
  readonly #settler: Settler
  readonly #renewals: Renewals
  /** For the transactions of handlers: each takes a connection. */
  readonly #transactions = new Gate(MOST_TRANSACTIONS)
  /** The batches with messages in flight, each with how many. */
  readonly #batches = new Map<number, number>()
  #demand: RoundDemand | undefined
  /** While messages are in flight, it hears which of them are cancelled. */
  #stopHearing: (() => void) | undefined

  constructor(runtime: Runtime, consumption: Consumption<LeasedPlan>) {
    const { queue, concurrency, leaseMs } = consumption.plan
    this.#runtime = runtime
    this.#consumption = consumption
    this.#source = new LeasedSource(runtime, consumption.plan)
    this.#losses = new Losses(queue, runtime.report)
    this.#room = new Room(concurrency)
    this.#settler = new Settler(runtime, consumption, {
      decided: () => this.#room.answered(),
      ended: (...ended) => this.#ended(...ended),
    })
    this.#renewals = new Renewals(leaseMs, (leases) => void this.#settler.renew(leases))
  }

  async run(demand: RoundDemand, alone: boolean, onCommitted: () => void): Promise<Next> {
    this.#demand = demand
    this.#endedSince = false
    const room = await this.#room.reserve(alone ? 1 : this.#most(demand), demand.draining)
    if (room === undefined) return CLAIM
    try {
      const admission = await this.#source.admit(demand, room.most)
      if ('kind' in admission) return admission
      try {
        return await this.#runAdmitted(demand, alone, onCommitted, admission, room)
      } finally {
        admission.close()
      }
    } finally {
      room.release()
    }
  }

  /**
   * In a backlog several claims leave in one packet, so that with batches of one the server does not wait for the process
   * between them: nearly twice as many messages per second.
   */
  #most({ isLast }: RoundDemand): number {
    const { batchSize } = this.#consumption.plan
    return this.#claims?.full === true && !isLast ? batchSize * MOST_AT_ONCE : batchSize
  }

  /** One for claims, one for settlements and renewals, and those of the handlers' transactions. */
  get connections(): number {
    return 2 + Math.min(MOST_TRANSACTIONS, this.#room.size)
  }

  failed(error: unknown, retryInMs?: number): unknown {
    this.#losses.report(error, retryInMs)
    return reasonFor(error)
  }

  resize(concurrency: number): number {
    this.#room.resize(concurrency)
    return 1
  }

  async drained(): Promise<boolean> {
    const hadAny = await this.#room.empty()
    return hadAny || this.#endedSince
  }

  cut(): void {
    this.#claims?.cut()
    this.#settler.cut()
  }

  async #runAdmitted(
    demand: RoundDemand,
    alone: boolean,
    onCommitted: () => void,
    admission: Admission,
    room: Reservation,
  ): Promise<Next> {
    const { gate, inHand } = this.#runtime
    if (!(await inHand.aloneLock.enter(alone, demand.draining))) return CLAIM
    const handled: Promise<void>[] = []
    const suspects: LeasedMessage[] = []
    const leave = await gate.enter()
    const take = async (claimed: LeasedClaim): Promise<void> => {
      room.use(claimed.answer.rows.length)
      admission.took(claimed.answer)
      const { batch, suspects: some } = await this.#batchOf(claimed, alone)
      onCommitted()
      handled.push(batch.run(demand.stopping))
      suspects.push(...some)
    }
    try {
      if (demand.paused) return CLAIM
      const taker = { found: leave, take }
      this.#claims = new LeasedClaims(this.#runtime, this.#consumption.plan, this.#source, demand, admission, taker)
      const next = await this.#claims.run(room.most)
      if (alone) await Promise.all(handled)
      // They are free when they have been given back: the next round is to find them.
      await Promise.all(suspects.map((leased) => leased.ended))
      return suspects.length > 0 ? CLAIM_ALONE : next
    } finally {
      leave()
      void Promise.all(handled).finally(() => inHand.aloneLock.leave())
    }
  }

  /** A message whose next crash may be its last waits until the process has nothing else in flight. */
  async #batchOf(claimed: LeasedClaim, alone: boolean) {
    const { crashLimit, report } = this.#runtime
    const { queue } = this.#consumption.plan
    const { answer } = claimed
    const all = this.#takeInHand(claimed)
    const evidence = await this.#evidence(claimed).catch((error: unknown) => {
      for (const leased of all) this.#settler.giveBack(leased)
      throw error
    })
    for (const leased of all) {
      if (leased.hasRunOut) leased.lose()
      const known = evidence.get(leased.id)
      if (known !== undefined) leased.suspect(known)
    }
    this.#consumption.meter.claimed(answer)
    this.#runtime.instruments.current?.claimed(queue, answer)
    report({ kind: 'batch.claimed', queue, messages: all.length, oldestDueMs: oldestMs(answer) })
    const isSuspect = ({ id }: LeasedMessage) => !alone && isLastChance(evidence.get(id), crashLimit)
    const ours = all.filter(({ lost }) => lost === undefined)
    const [suspects, others] = [ours.filter(isSuspect), ours.filter((leased) => !isSuspect(leased))]
    for (const leased of all) if (leased.lost !== undefined || isSuspect(leased)) this.#settler.giveBack(leased)
    return {
      batch: new LeasedBatch(this.#runtime, this.#consumption, this.#settler, this.#transactions, others, answer),
      suspects,
    }
  }

  /** From here on their leases are renewed. */
  #takeInHand({ batchId, lease, answer }: LeasedClaim): readonly LeasedMessage[] {
    const { queue, leaseMs: ms } = this.#consumption.plan
    this.#settler.setClock(answer)
    this.#batches.set(batchId, answer.rows.length)
    const claim = { lease, batchId, ms, claimedAtMs: answer.sentAtMs, claimedUs: answer.nowUs }
    const all = answer.rows.map((row) => new LeasedMessage(queue, row, claim))
    this.#renewals.add(all)
    this.#stopHearing ??= this.#runtime.cancellations.hear(queue, (request) => void this.#cancelled(request))
    return all
  }

  /** A renewal finds out whether the message is gone. If it is not, because its row was locked, it is ended here. */
  async #cancelled({ id, askedUs }: CancelRequest): Promise<void> {
    const leased = this.#renewals.get(id)
    if (leased === undefined || leased.isLocked || leased.cancelAsked || askedUs < leased.claimedUs) return
    leased.cancelAsked = true
    // Its settlement finds out.
    if (leased.isDecided) return
    await this.#settler.renew([leased])
    // Its handler has begun a transaction meanwhile: the next poll asks again.
    if (leased.isLocked) leased.cancelAsked = false
    else leased.cancel()
  }

  /** @throws if it cannot be read: a message whose next crash should be its last would run beside others */
  #evidence({ batchId, answer: { rows, evidence } }: LeasedClaim): Promise<EvidenceById> {
    const record = {
      id: batchId,
      queue: this.#consumption.plan.queue,
      messageIds: rows.map(({ id }) => id),
      attempts: rows.map(({ attempt }) => attempt),
      leased: true,
    }
    return this.#runtime.inHand.recorded(record, evidence || rows.some(({ expired }) => expired))
  }

  /** It is settled. @param decided undefined: it was lost */
  #ended(leased: LeasedMessage, decided: Decided | undefined): void {
    const { row } = leased
    this.#renewals.delete(leased)
    this.#endedSince = true
    this.#room.settled()
    const left = (this.#batches.get(leased.batchId) ?? 1) - 1
    if (left > 0) this.#batches.set(leased.batchId, left)
    else if (this.#batches.delete(leased.batchId)) this.#runtime.inHand.end(leased.batchId)
    if (decided?.decision.kind === 'back') this.#source.release([row])
    if (this.#batches.size === 0) {
      this.#stopHearing?.()
      this.#stopHearing = undefined
    }
    const inMs = decided && dueInMs(decided, this.#settler.rules.clock.nowUs())
    if (inMs !== undefined) this.#demand?.due([inMs])
    // No other event tells the demand that the key or the permit is free.
    if (this.#source.opens(row)) this.#demand?.opened()
  }
}

/** More claims would keep the handlers of the first waiting while the server carries out the others. */
const MOST_AT_ONCE = 8
