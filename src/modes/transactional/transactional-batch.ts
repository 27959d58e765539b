import { type ClaimAnswer, oldestMs } from '../../claim/claim-answer.ts'
import { DeliveredMessage } from '../../claim/delivered-message.ts'
import type { BegunBatch, EvidenceById } from '../../crash/in-hand.ts'
import { isLastChance } from '../../crash/last-chance.ts'
import { isSluiceError } from '../../errors.ts'
import { BatchRun } from '../../handle/batch-run.ts'
import type { Consumption } from '../../handle/consumption.ts'
import { MessageTransaction } from '../../handle/transaction/message-transaction.ts'
import type { TransactionalPlan } from '../../plan/options.ts'
import type { Settlement } from '../../settle/settlement.ts'
import type { TransactionalSource } from '../../source/source.ts'
import type { ClaimedRow } from '../../table/claim/claim.ts'
import type { Evidence } from '../../table/worker/evidence.ts'
import { cancelStatement } from '../../table/worker/server-process.ts'
import type { BatchConnection } from '../../transaction/batch-connection.ts'
import type { Runtime } from '../runtime.ts'
import { type CountedAs, countLoss } from './lost-batch.ts'

/** A batch that is claimed, handled and settled in one transaction. */
export class TransactionalBatch {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<TransactionalPlan>
  readonly #source: TransactionalSource
  readonly #connection: BatchConnection
  readonly #claimed: ClaimAnswer
  readonly #settlement: Settlement
  readonly #startedAt = performance.now()
  readonly #controlSession: object | undefined
  /** The record of all its messages, or of the one that runs alone. */
  #record: BegunBatch | undefined
  #run: BatchRun | undefined
  /** It has messages with evidence, which have a transaction to themselves: the next claims should be small. */
  hasEvidence = false
  #controlFailed = false

  constructor(
    runtime: Runtime,
    consumption: Consumption<TransactionalPlan>,
    source: TransactionalSource,
    connection: BatchConnection,
    claimed: ClaimAnswer,
  ) {
    this.#runtime = runtime
    this.#consumption = consumption
    this.#source = source
    this.#connection = connection
    this.#claimed = claimed
    this.#controlSession = runtime.control.session
    this.#settlement = source.settlement(claimed)
  }

  /** The rows that it has not settled. */
  get untouched(): readonly ClaimedRow[] {
    const { rows } = this.#claimed
    return this.#settlement.size === rows.length ? [] : rows.filter((row) => !this.#settlement.has(row.id))
  }

  /** In how many milliseconds those are due again that are tried again. */
  get dueInMs(): readonly number[] {
    return this.#settlement.dueInMs
  }

  /**
   * Runs the handlers; false: not one of them, because the batch may only run while the process has nothing else in flight.
   *
   * @param alone the process has nothing else in flight
   */
  async run(alone: boolean): Promise<boolean> {
    const { rows } = this.#claimed
    const evidence = await this.#begin(rows)
    const together = untilEvidence(rows, evidence)
    this.hasEvidence = evidence.size > 0
    if (!alone && together.some(({ id }) => this.#isLastChance(evidence.get(id)))) return false
    // Messages that are left out are not in flight: if the process dies, they were not the reason.
    if (together.length < rows.length) await this.#begin(together)
    this.#reportClaimed()
    await this.#handle(together, evidence)
    await this.#settlement.learnTexts(this.#runtime.control.execute)
    return true
  }

  /** Sends the settlement; its answers may be awaited after COMMIT has been sent. */
  write(): Promise<void> {
    this.#connection.confine()
    return this.#settlement.write(this.#connection.execute)
  }

  committed(): void {
    this.#end()
    this.#settlement.reportAll(this.#runtime.report)
    this.#consumption.onSettled?.(this.#settlement.settled)
    const { counts } = this.#settlement
    this.#consumption.meter.settled(counts)
    const { queue } = this.#consumption.plan
    if (this.#settlement.size === 0) {
      // A stop came before anything was done.
      this.#runtime.report({ kind: 'batch.released', queue, messages: this.untouched.length })
      return
    }
    const durationMs = performance.now() - this.#startedAt
    this.#runtime.report({ kind: 'batch.committed', queue, ...counts, durationMs })
  }

  /** The batch went back as it was. */
  gaveBack(): void {
    this.#end()
  }

  /** The transaction is lost: nothing of it holds. */
  async lost(error: unknown): Promise<CountedAs> {
    try {
      return await this.#countLoss(error)
    } finally {
      this.#end()
    }
  }

  async #countLoss(error: unknown): Promise<CountedAs> {
    if (this.#record === undefined || this.#run === undefined || this.#controlFailed) return 'nothing'
    // Our own stop has cut the connection.
    if (isSluiceError(this.#connection.signal.reason, 'STOPPED')) return 'nothing'
    const { begun, hung } = this.#run
    const batchId = this.#record.id
    if (hung.length === 0) {
      const connection = this.#connection
      const session = this.#controlSession
      return countLoss(this.#runtime, this.#consumption, this.#source, { begun, batchId, connection, session, error })
    }
    const ids = hung.map((message) => message.id)
    // If the control connection is down there is no evidence this time; the message comes again all the same.
    await this.#runtime.inHand.hung(batchId, this.#consumption.plan.queue, ids).catch(() => undefined)
    return 'nothing'
  }

  #reportClaimed(): void {
    const claimed = this.#claimed
    const { queue } = this.#consumption.plan
    const oldestDueMs = oldestMs(claimed)
    this.#consumption.meter.claimed(claimed)
    this.#runtime.instruments.current?.claimed(queue, claimed)
    this.#runtime.report({ kind: 'batch.claimed', queue, messages: claimed.rows.length, oldestDueMs })
  }

  async #handle(rows: readonly ClaimedRow[], evidence: EvidenceById): Promise<void> {
    const [connection, claimed] = [this.#connection, this.#claimed]
    const { cancellations, control, enqueue } = this.#runtime
    const run = new BatchRun(this.#runtime, this.#consumption, {
      decisions: this.#settlement,
      attempt: () => new MessageTransaction(connection, enqueue),
      clock: claimed,
      partitionOf: this.#settlement.partitionOf,
      cancel: () => this.#onControl(() => cancelStatement(control.execute, claimed.transaction)),
    })
    this.#run = run
    const deadline = run.deadline()
    const { signal } = connection
    const stop = () => run.stop(signal.reason)
    signal.addEventListener('abort', stop)
    if (signal.aborted) stop()
    const { queue } = this.#consumption.plan
    const stopHearing = cancellations.hear(queue, ({ id, askedUs }) => {
      if (askedUs >= claimed.nowUs) run.cancel(id, deadline)
    })
    try {
      const messages = rows.map((row) => new DeliveredMessage(queue, row, evidence.get(row.id)))
      await run.run(messages, deadline)
    } finally {
      stopHearing()
      signal.removeEventListener('abort', stop)
    }
  }

  /** What fails on the control connection is no message's fault. */
  async #onControl(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#controlFailed = true
      throw error
    }
  }

  /** Whether the message may die of the next crash. */
  #isLastChance(evidence: Evidence | undefined): boolean {
    return isLastChance(evidence, this.#runtime.crashLimit)
  }

  async #begin(rows: readonly ClaimedRow[]): Promise<EvidenceById> {
    this.#end()
    this.#record = await this.#runtime.inHand.begin(this.#consumption.plan.queue, rows, this.#claimed.evidence)
    return this.#record.evidence
  }

  #end(): void {
    if (this.#record !== undefined) this.#runtime.inHand.end(this.#record.id)
    this.#record = undefined
  }
}

/**
 * The messages to handle in one transaction. One about which there is evidence has a record and a transaction to itself,
 * so that the next crash or loss counts for it alone and undoes nothing else: the batch ends before it, or is that
 * message. What is left out keeps its place, so that nothing overtakes an earlier message of its key.
 */
function untilEvidence(rows: readonly ClaimedRow[], evidence: EvidenceById): readonly ClaimedRow[] {
  const at = rows.findIndex(({ id }) => evidence.has(id))
  return at === -1 ? rows : rows.slice(0, Math.max(1, at))
}
