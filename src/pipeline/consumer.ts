import type pg from 'pg'
import type { Control } from '../connection/control.ts'
import type { QueueDefinition } from '../queues.ts'
import type { ClaimedRow } from '../table/claim.ts'
import { cancelStatement } from '../table/worker.ts'
import type { Report } from '../telemetry.ts'
import type { Scheduler } from '../wake-up/scheduler.ts'
import { BatchRun, type Work } from './batch-run.ts'
import type { ClaimedBatch, ConsumedBatch } from './claimed-batch.ts'
import { DeliveredMessage } from './delivered-message.ts'
import type { Gate } from './gate.ts'
import type { BegunBatch, Crashes, InHand } from './in-hand.ts'
import type { PipelinePlan } from './options.ts'
import { Producer } from './producer.ts'
import type { EnqueueIn } from './run-context.ts'
import { type SettledMessage, Settlement } from './settlement.ts'

/** What every consumer of a process shares. */
export interface Runtime {
  readonly pool: pg.Pool
  readonly control: Control
  readonly scheduler: Scheduler
  readonly inHand: InHand
  readonly serverVersion: () => number
  readonly gate: Gate
  readonly crashLimit: number
  readonly report: Report
}

/** What is consumed, and how. */
export interface Consumption {
  readonly plan: PipelinePlan
  readonly definition: QueueDefinition | undefined
  readonly work: Work
  readonly enqueue: EnqueueIn
  /** Hears of every message that a committed batch has settled. */
  readonly onSettled?: ((settled: readonly SettledMessage[]) => void) | undefined
  readonly onEnded?: (() => void) | undefined
}

/** Makes the producer that feeds the work with the batches of a queue, in transactional mode. */
export function createConsumer(runtime: Runtime, consumption: Consumption): Producer {
  return new Producer({
    ...runtime,
    plan: consumption.plan,
    onEnded: consumption.onEnded,
    consume: (batch) => new TransactionalBatch(runtime, consumption, batch),
  })
}

/** A batch that is claimed, handled and settled in one transaction. */
class TransactionalBatch implements ConsumedBatch {
  readonly #runtime: Runtime
  readonly #consumption: Consumption
  readonly #batch: ClaimedBatch
  readonly #settlement: Settlement
  readonly #startedAt = performance.now()
  /** The record of all its messages, or of the one that runs alone. */
  #record: BegunBatch | undefined
  #entered = false
  #run: BatchRun | undefined

  constructor(runtime: Runtime, consumption: Consumption, batch: ClaimedBatch) {
    this.#runtime = runtime
    this.#consumption = consumption
    this.#batch = batch
    const { nowUs, sentAtMs } = batch.look
    this.#settlement = new Settlement({
      plan: consumption.plan,
      report: runtime.report,
      serverVersion: runtime.serverVersion(),
      claimedUs: nowUs,
      nowUs: () => nowUs + (performance.now() - sentAtMs) * 1_000,
    })
  }

  get untouched(): readonly ClaimedRow[] {
    return this.#batch.look.rows.filter((row) => !this.#settlement.has(row.id))
  }

  async run(): Promise<void> {
    const { plan } = this.#consumption
    const { rows, nowUs } = this.#batch.look
    const oldestDueMs = (nowUs - Math.min(...rows.map((row) => row.dueUs))) / 1_000
    this.#runtime.report({ kind: 'batch.claimed', queue: plan.queue, messages: rows.length, oldestDueMs })
    await this.#enter(false)
    const crashes = await this.#begin(rows)
    if (this.#isLastChance(crashes)) {
      this.#leave()
      await this.#enter(true)
    }
    this.#run = new BatchRun({
      ...this.#consumption,
      crashes,
      settlement: this.#settlement,
      connection: this.#batch.connection,
      crashLimit: this.#runtime.crashLimit,
      signal: this.#batch.signal,
      recordAlone: async (message) => void (await this.#begin([message.row])),
      cancel: () => cancelStatement(this.#runtime.control.execute, this.#batch.look.transaction),
    })
    await this.#run.run(rows.map((row) => new DeliveredMessage(plan.queue, row, crashes.get(row.id)?.crashes ?? 0)))
  }

  write(): Promise<void> {
    return this.#settlement.write(this.#batch.connection.execute)
  }

  committed(): void {
    this.#leave()
    this.#settlement.reportAll()
    this.#consumption.onSettled?.(this.#settlement.settled)
    const durationMs = performance.now() - this.#startedAt
    const { queue } = this.#consumption.plan
    this.#runtime.report({ kind: 'batch.committed', queue, ...this.#settlement.counts, durationMs })
  }

  async lost(): Promise<void> {
    const hung = this.#run?.hung ?? []
    if (hung.length > 0 && this.#record !== undefined) {
      const ids = hung.map((message) => message.id)
      // Without the control connection there is no evidence this time; the message comes again all the same.
      await this.#runtime.inHand.hung(this.#record.id, this.#consumption.plan.queue, ids).catch(() => undefined)
    }
    this.#leave()
  }

  /** Whether the next death with one of these in hand may be its last. */
  #isLastChance(crashes: Crashes): boolean {
    const fewest = Math.max(1, this.#runtime.crashLimit - 1)
    return [...crashes.values()].some((evidence) => evidence.crashes >= fewest)
  }

  async #enter(alone: boolean): Promise<void> {
    await this.#runtime.inHand.isolation.enter(alone, this.#batch.signal)
    this.#entered = true
  }

  #leave(): void {
    this.#end()
    if (this.#entered) this.#runtime.inHand.isolation.leave()
    this.#entered = false
  }

  async #begin(rows: readonly ClaimedRow[]): Promise<Crashes> {
    this.#end()
    this.#record = await this.#runtime.inHand.begin(this.#consumption.plan.queue, rows, this.#batch.look.evidence)
    return this.#record.crashes
  }

  #end(): void {
    if (this.#record !== undefined) this.#runtime.inHand.end(this.#record.id)
    this.#record = undefined
  }
}
