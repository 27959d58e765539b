import type { ClaimAnswer } from '../../claim/claim-answer.ts'
import { Claimer } from '../../claim/claimer.ts'
import { DeliveredMessage } from '../../claim/delivered-message.ts'
import { isLastChance } from '../../crash/last-chance.ts'
import type { Ran, Round, RoundDemand, RoundOptions } from '../../demand/round.ts'
import { leaseOf } from '../../table/claim/lease.ts'
import { AnswerLimit } from '../../transaction/answer-limit.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { TransactionLimit } from '../../transaction/transaction-settings.ts'
import { Losses, reasonFor } from '../losses.ts'
import type { Consumption, Runtime } from '../runtime.ts'
import { LeasedBatch } from './leased-batch.ts'
import { LeasedMessage } from './leased-message.ts'
import { Places } from './places.ts'
import { Renewals } from './renewals.ts'
import { Settler } from './settler.ts'

/**
 * Claims messages under a lease in a short transaction, and has them handled with none open. A round is one claim: it
 * ends while its handlers run, and the next one waits until there are places for more.
 */
export class LeasedRound implements Round {
  readonly #runtime: Runtime
  readonly #consumption: Consumption
  readonly #claimer: Claimer
  readonly #losses: Losses
  readonly #places: Places
  readonly #settler: Settler
  readonly #renewals: Renewals
  #claiming: BatchConnection | undefined
  #demand: RoundDemand | undefined

  constructor(runtime: Runtime, consumption: Consumption) {
    const { queue, batchSize, concurrency, leaseMs } = consumption.plan
    this.#runtime = runtime
    this.#consumption = consumption
    this.#losses = new Losses(queue, runtime.report)
    this.#claimer = new Claimer({ queue, batchSize, concurrency: 1, ordered: false, control: runtime.control })
    this.#places = new Places(concurrency, Math.min(batchSize, WORTH_A_CLAIM))
    this.#settler = new Settler(runtime, consumption, (leased, given) => this.#ended(leased, given))
    this.#renewals = new Renewals(leaseMs, (old) => void this.#settler.renew(old))
  }

  async run(demand: RoundDemand, { alone, onCommitted }: RoundOptions): Promise<Ran> {
    this.#demand = demand
    const { gate, inHand } = this.#runtime
    const free = await this.#places.free(demand.draining)
    if (free === 0) return ENDED
    const patience = alone ? AbortSignal.any([demand.draining, AbortSignal.timeout(ALONE_MS)]) : demand.draining
    if (!(await inHand.aloneLock.enter(alone, patience))) return demand.draining.aborted ? ENDED : MORE
    let handled: Promise<void> | undefined
    const leave = await gate.enter()
    try {
      const claimed = await this.#claim(demand, alone ? 1 : Math.min(free, this.#consumption.plan.batchSize), leave)
      if ('kind' in claimed) return claimed
      onCommitted()
      const { batch, suspects } = await this.#batchOf(claimed, alone)
      handled = batch.run(demand.stopping)
      if (alone) await handled
      return suspects ? ALONE : MORE
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
    return this.#places.empty()
  }

  cut(): void {
    this.#claiming?.break('The pipeline has stopped')
    this.#settler.cut()
  }

  /** `onFound`: the claim has found messages. */
  async #claim(demand: RoundDemand, most: number, onFound: () => void): Promise<Claimed | Ran> {
    const { pool, control, connectTimeoutMs, inHand } = this.#runtime
    const connection = await BatchConnection.acquire(pool, demand.stopping)
    this.#claiming = connection
    const answers = new AnswerLimit(connection, control, { claimMs: connectTimeoutMs, serverMs: CLAIM_MS })
    let ended: Promise<void> | undefined
    try {
      const batchId = inHand.reserve()
      const terms = {
        lease: leaseOf(inHand.workerId, batchId),
        ms: this.#consumption.plan.leaseMs,
        most,
        serverVersion: this.#runtime.serverVersion(),
      }
      const sent = connection.together(() => {
        connection.begin(this.#limit)
        // A lease that is lost with a server that crashes is a message that is delivered again, and nothing worse.
        connection.sendSoon('SET LOCAL synchronous_commit = off')
        demand.sent()
        const claim = this.#claimer.send(connection, terms)
        return { claim, committed: claim.atOnce ? connection.commit(this.#limit) : undefined }
      })
      sent.committed?.catch(() => undefined)
      inHand.findDeadAhead()
      const claimed = await this.#claimer.take(connection, sent.claim).finally(() => demand.answered())
      answers.claimed(claimed.transaction.pid)
      const { rows, nowUs, nextDueMs, cut } = claimed
      const isCommitted = sent.committed !== undefined && claimed === (await sent.claim.first)
      if (rows.length === 0 || (demand.draining.aborted && !isCommitted)) {
        this.#claimer.release(rows)
        await connection.rollback()
        return { kind: 'nothing', nextDueMs, cut }
      }
      onFound()
      demand.found({ full: claimed.full, youngestMs: (nowUs - Math.max(...rows.map((row) => row.dueUs))) / 1_000 })
      await this.#commit(claimed, isCommitted ? sent.committed : connection.commit())
      // The transaction that COMMIT has begun ends while the handlers run.
      if (isCommitted) ended = connection.rollback()
      return { batchId, lease: terms.lease, answer: claimed }
    } catch (error) {
      await connection.abandon()
      throw connection.lastWords ?? error
    } finally {
      answers.stop()
      this.#claiming = undefined
      const release = () => connection.release()
      if (ended === undefined) release()
      else ended.then(release, release)
    }
  }

  async #commit({ rows }: ClaimAnswer, committed: Promise<void> | undefined): Promise<void> {
    try {
      await committed
    } catch (error) {
      this.#claimer.release(rows)
      throw error
    }
  }

  /** A message whose next death may be its last waits until the process has nothing else in hand. */
  async #batchOf({ batchId, lease, answer }: Claimed, alone: boolean) {
    const { inHand, crashLimit, report } = this.#runtime
    const { queue, leaseMs } = this.#consumption.plan
    const { rows, nowUs, sentAtMs } = answer
    this.#settler.heard(nowUs, sentAtMs)
    this.#places.take(rows.length)
    const record = {
      id: batchId,
      queue,
      messageIds: rows.map(({ id }) => id),
      attempts: rows.map((row) => row.attempt),
    }
    const evidence = await inHand
      .recorded({ ...record, leased: true }, answer.evidence)
      .catch(() => new Map<string, never>())
    const all = rows.map(
      (row) => new LeasedMessage(new DeliveredMessage(queue, row, evidence.get(row.id)), lease, leaseMs, sentAtMs),
    )
    this.#inHand.set(lease, all.length)
    this.#renewals.add(all)
    const oldestDueMs = (nowUs - Math.min(...rows.map((row) => row.dueUs))) / 1_000
    report({ kind: 'batch.claimed', queue, messages: rows.length, oldestDueMs })
    const isSuspect = ({ id }: LeasedMessage) => !alone && isLastChance(evidence.get(id), crashLimit)
    const [suspects, others] = [all.filter(isSuspect), all.filter((leased) => !isSuspect(leased))]
    for (const leased of suspects) this.#settler.giveBack(leased)
    const batch = new LeasedBatch(this.#runtime, this.#consumption, this.#settler, others)
    return { batch, suspects: suspects.length > 0 }
  }

  /** How many messages of each batch are not settled yet. */
  readonly #inHand = new Map<string, number>()

  #ended(leased: LeasedMessage, given: boolean): void {
    this.#renewals.delete(leased)
    this.#places.give(1)
    const left = (this.#inHand.get(leased.lease) ?? 1) - 1
    if (left > 0) this.#inHand.set(leased.lease, left)
    else {
      this.#inHand.delete(leased.lease)
      this.#runtime.inHand.end(Number(BigInt(leased.lease) & 0xffffffffn))
    }
    if (given) this.#claimer.release([leased.message.row])
    const { slot } = leased.message.row
    if (slot === null) return
    // The next message of its key may be claimed now, and nobody else says so.
    this.#claimer.opened(slot)
    this.#demand?.opened()
  }

  get #limit(): TransactionLimit {
    return { ms: CLAIM_MS, serverVersion: this.#runtime.serverVersion() }
  }
}

interface Claimed {
  readonly batchId: number
  readonly lease: string
  readonly answer: ClaimAnswer
}

const MORE = { kind: 'more' } as const
const ALONE = { kind: 'alone' } as const
const ENDED = { kind: 'ended' } as const

/** So many places must be free, or all of them, before a claim is sent. */
const WORTH_A_CLAIM = 100

/** What the server may take for a claim. */
const CLAIM_MS = 30_000

/** How long a suspect waits for a process that has others in hand: claims wait behind it. */
const ALONE_MS = 10_000
