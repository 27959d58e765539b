import { Gate } from '../../basics/gate.ts'
import { oldestMs } from '../../claim/claim-answer.ts'
import { DeliveredMessage } from '../../claim/delivered-message.ts'
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

  async run(demand: RoundDemand, { alone, onCommitted }: RoundOptions): Promise<Ran> {
    this.#demand = demand
    const { gate, inHand } = this.#runtime
    const free = await this.#room.free(demand.draining)
    if (free === 0 || !(await inHand.aloneLock.enter(alone, demand.draining))) return ENDED
    let handled: Promise<void> | undefined
    const leave = await gate.enter()
    try {
      const most = alone ? 1 : Math.min(free, this.#consumption.plan.batchSize)
      const claimed = await this.#claimer.claim(demand, most, leave)
      if ('kind' in claimed) return claimed
      onCommitted()
      const { batch, suspects } = await this.#batchOf(claimed, alone)
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

  /** A message whose next crash may be its last waits until the process has nothing else in hand. */
  async #batchOf({ batchId, lease, answer }: LeasedClaim, alone: boolean) {
    const { inHand, crashLimit, report } = this.#runtime
    const { queue, leaseMs } = this.#consumption.plan
    const { rows, sentAtMs } = answer
    this.#settler.setClock(answer)
    this.#room.take(rows.length)
    this.#batches.set(batchId, rows.length)
    const record = {
      id: batchId,
      queue,
      messageIds: rows.map(({ id }) => id),
      attempts: rows.map((row) => row.attempt),
    }
    const evidence = await inHand
      .recorded({ ...record, leased: true }, answer.evidence || rows.some(({ expired }) => expired))
      .catch(() => new Map<string, never>())
    const all = rows.map((row) => {
      const message = new DeliveredMessage(queue, row, evidence.get(row.id))
      return new LeasedMessage(message, { lease, batchId, ms: leaseMs, claimedAtMs: sentAtMs })
    })
    this.#renewals.add(all)
    report({ kind: 'batch.claimed', queue, messages: rows.length, oldestDueMs: oldestMs(answer) })
    const isSuspect = ({ id }: LeasedMessage) => !alone && isLastChance(evidence.get(id), crashLimit)
    const [suspects, others] = [all.filter(isSuspect), all.filter((leased) => !isSuspect(leased))]
    for (const leased of suspects) this.#settler.giveBack(leased)
    const batch = new LeasedBatch(this.#runtime, this.#consumption, this.#settler, this.#transactions, others)
    return { batch, suspects }
  }

  #ended(leased: LeasedMessage, returned: boolean): void {
    const { row } = leased.message
    this.#renewals.delete(leased)
    this.#room.giveBack()
    const left = (this.#batches.get(leased.batchId) ?? 1) - 1
    if (left > 0) this.#batches.set(leased.batchId, left)
    else if (this.#batches.delete(leased.batchId)) this.#runtime.inHand.end(leased.batchId)
    if (returned) this.#claimer.release([row])
    if (row.slot === null) return
    // The next message of its key may be claimed now, and nobody else says so.
    this.#claimer.opened(row.slot)
    this.#demand?.opened()
  }
}

/** So many handlers of a pipeline may have a transaction at a time. */
const TRANSACTIONS = 10
