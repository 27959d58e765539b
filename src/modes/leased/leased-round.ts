import { Gate } from '../../basics/gate.ts'
import { oldestMs } from '../../claim/claim-answer.ts'
import { DeliveredMessage } from '../../claim/delivered-message.ts'
import type { EvidenceById } from '../../crash/in-hand.ts'
import { isLastChance } from '../../crash/last-chance.ts'
import { ALONE, ENDED, MORE, type Ran, type Round, type RoundDemand, type RoundOptions } from '../../demand/round.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import { Losses, reasonFor } from '../losses.ts'
import type { Consumption, Runtime } from '../runtime.ts'
import { LeaseClaimer, type LeasedClaim } from './lease-claimer.ts'
import { LeasedBatch } from './leased-batch.ts'
import { LeasedMessage } from './leased-message.ts'
import { Renewals } from './renewals.ts'
import { Room } from './room.ts'
import { Settler } from './settler.ts'

/**
 * Claims messages under a lease in a short transaction, and has them handled with none open. A round is one claim: it
 * ends while its handlers run, and the next one waits until there is room for a message.
 */
export class LeasedRound implements Round {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<LeasedPlan>
  readonly #claimer: LeaseClaimer
  readonly #losses: Losses
  readonly #room: Room
  readonly #settler: Settler
  readonly #renewals: Renewals
  /** For the transactions of handlers: each takes a connection. */
  readonly #transactions = new Gate(TRANSACTIONS)
  /** The batches with messages in hand, each with how many. */
  readonly #batches = new Map<number, number>()
  #demand: RoundDemand | undefined

  constructor(runtime: Runtime, consumption: Consumption<LeasedPlan>) {
    const { queue, concurrency, leaseMs } = consumption.plan
    this.#runtime = runtime
    this.#consumption = consumption
    this.#claimer = new LeaseClaimer(runtime, consumption)
    this.#losses = new Losses(queue, runtime.report)
    this.#room = new Room(concurrency)
    this.#settler = new Settler(runtime, consumption, (leased, returned) => this.#ended(leased, returned))
    this.#renewals = new Renewals(leaseMs, (leases) => void this.#settler.renew(leases))
  }

  async run(demand: RoundDemand, options: RoundOptions): Promise<Ran> {
    this.#demand = demand
    const reserved = await this.#room.reserve(options.alone ? 1 : this.#consumption.plan.batchSize, demand.draining)
    return reserved === 0 ? ENDED : this.#runOne(demand, options, reserved)
  }

  failed(error: unknown, retryInMs?: number): unknown {
    this.#losses.report(error, retryInMs)
    return reasonFor(error)
  }

  settled(): Promise<boolean> {
    return this.#room.empty()
  }

  cut(): void {
    this.#claimer.cut()
    this.#settler.cut()
  }

  async #runOne(demand: RoundDemand, { alone, onCommitted }: RoundOptions, reserved: number): Promise<Ran> {
    const { gate, inHand } = this.#runtime
    if (!(await inHand.aloneLock.enter(alone, demand.draining))) {
      this.#room.giveBack(reserved)
      return ENDED
    }
    let handled: Promise<void> | undefined
    const leave = await gate.enter()
    try {
      const claimed = await this.#claim(demand, reserved, leave)
      if ('kind' in claimed) return claimed
      const { batch, suspects } = await this.#batchOf(claimed, alone)
      onCommitted()
      handled = batch.run(demand.stopping)
      if (alone) await handled
      // They are free when they have been given back: the next round is to find them.
      await Promise.all(suspects.map((leased) => leased.ended))
      return suspects.length > 0 ? ALONE : MORE
    } finally {
      leave()
      if (handled === undefined) inHand.aloneLock.leave()
      else void handled.finally(() => inHand.aloneLock.leave())
    }
  }

  async #claim(demand: RoundDemand, reserved: number, onFound: () => void): Promise<LeasedClaim | Ran> {
    let taken = 0
    try {
      const claimed = await this.#claimer.claim(demand, reserved, onFound)
      if ('answer' in claimed) taken = claimed.answer.rows.length
      return claimed
    } finally {
      this.#room.giveBack(reserved - taken)
    }
  }

  /** A message whose next crash may be its last waits until the process has nothing else in hand. */
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
      if (known !== undefined) leased.message = new DeliveredMessage(queue, leased.message.row, known)
    }
    report({ kind: 'batch.claimed', queue, messages: all.length, oldestDueMs: oldestMs(answer) })
    const isSuspect = ({ id }: LeasedMessage) => !alone && isLastChance(evidence.get(id), crashLimit)
    const ours = all.filter(({ lost }) => lost === undefined)
    const [suspects, others] = [ours.filter(isSuspect), ours.filter((leased) => !isSuspect(leased))]
    for (const leased of all) if (leased.lost !== undefined || isSuspect(leased)) this.#settler.giveBack(leased)
    const batch = new LeasedBatch(this.#runtime, this.#consumption, this.#settler, this.#transactions, others)
    return { batch, suspects }
  }

  /** From here on their leases are renewed. */
  #takeInHand({ batchId, lease, answer }: LeasedClaim): readonly LeasedMessage[] {
    const { queue, leaseMs: ms } = this.#consumption.plan
    this.#settler.setClock(answer)
    this.#batches.set(batchId, answer.rows.length)
    const all = answer.rows.map((row) => {
      const message = new DeliveredMessage(queue, row)
      return new LeasedMessage(message, { lease, batchId, ms, claimedAtMs: answer.sentAtMs })
    })
    this.#renewals.add(all)
    return all
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

  #ended(leased: LeasedMessage, returned: boolean): void {
    const { row } = leased.message
    this.#renewals.delete(leased)
    this.#room.giveBack(1)
    const left = (this.#batches.get(leased.batchId) ?? 1) - 1
    if (left > 0) this.#batches.set(leased.batchId, left)
    else if (this.#batches.delete(leased.batchId)) this.#runtime.inHand.end(leased.batchId)
    if (returned) this.#claimer.release([row])
    // The next message of its key may be claimed now, and nobody else says so.
    if (row.slot !== null) this.#demand?.opened()
  }
}

/** So many handlers of a pipeline may have a transaction at a time. */
const TRANSACTIONS = 10
