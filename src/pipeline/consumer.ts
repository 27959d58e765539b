import type pg from 'pg'
import type { Control } from '../connection/control.ts'
import type { QueueDefinition } from '../queues.ts'
import { cancelBackend } from '../table/worker.ts'
import type { Report } from '../telemetry.ts'
import type { Scheduler } from '../wake-up/scheduler.ts'
import { BatchRun, type Work } from './batch-run.ts'
import { DeliveredMessage } from './delivered-message.ts'
import type { BegunBatch, InHand } from './in-hand.ts'
import type { PipelinePlan } from './options.ts'
import { type ClaimedBatch, type HandledBatch, Producer } from './producer.ts'
import { type SettledMessage, Settlement } from './settlement.ts'

/** What every consumer of a process shares. */
export interface Runtime {
  readonly pool: pg.Pool
  readonly control: Control
  readonly scheduler: Scheduler
  readonly inHand: InHand
  readonly serverVersion: () => number
  readonly crashLimit: number
  readonly report: Report
}

/** What is consumed, and how. */
export interface Consumption {
  readonly plan: PipelinePlan
  readonly definition: QueueDefinition | undefined
  readonly work: Work
  /** Hears of every message that a committed batch has settled. */
  readonly onSettled?: ((settled: readonly SettledMessage[]) => void) | undefined
}

/** Makes the producer that feeds the work with the batches of a queue, in transactional mode. */
export function createConsumer(runtime: Runtime, consumption: Consumption): Producer {
  return new Producer({
    ...runtime,
    plan: consumption.plan,
    handle: (batch) => handleBatch(runtime, consumption, batch),
  })
}

async function handleBatch(
  runtime: Runtime,
  { plan, definition, work, onSettled }: Consumption,
  batch: ClaimedBatch,
): Promise<HandledBatch> {
  const { inHand, control, report } = runtime
  const { rows, nowUs, sentAtMs } = batch.look
  const startedAt = performance.now()
  const oldestDueMs = (nowUs - Math.min(...rows.map((row) => row.dueUs))) / 1_000
  report({ kind: 'batch.claimed', queue: plan.queue, messages: rows.length, oldestDueMs })
  const record = new BatchRecordKeeper(inHand, plan.queue)
  try {
    const crashes = await record.begin(rows)
    const settlement = new Settlement({ plan, report, nowUs: () => nowUs + (performance.now() - sentAtMs) * 1_000 })
    const messages = rows.map((row) => new DeliveredMessage(plan.queue, row, crashes.get(row.id) ?? 0))
    const run = new BatchRun({
      plan,
      work,
      definition,
      settlement,
      crashes,
      connection: batch.connection,
      crashLimit: runtime.crashLimit,
      stop: batch.stop,
      recordAlone: async (message) => {
        await record.begin([message.row])
      },
      cancel: async () => {
        const pid = batch.connection.backendPid
        if (pid !== undefined) await cancelBackend(control.execute, pid)
      },
    })
    await run.run(messages)
    return {
      write: () => settlement.write(batch.connection.execute),
      untouched: rows.filter((row) => !settlement.has(row.id)),
      ended: (committed) => {
        record.end()
        if (!committed) return
        settlement.reportAll()
        onSettled?.(settlement.settled)
        const durationMs = performance.now() - startedAt
        report({ kind: 'batch.committed', queue: plan.queue, ...settlement.counts, durationMs })
      },
    }
  } catch (error) {
    record.end()
    throw error
  }
}

/** The current record of a batch: of all its messages, or of the one that runs alone. */
class BatchRecordKeeper {
  readonly #inHand: InHand
  readonly #queue: string
  #current: BegunBatch | undefined

  constructor(inHand: InHand, queue: string) {
    this.#inHand = inHand
    this.#queue = queue
  }

  async begin(rows: readonly { readonly id: string; readonly attempt: number }[]): Promise<BegunBatch['crashes']> {
    this.end()
    this.#current = await this.#inHand.begin(this.#queue, rows)
    return this.#current.crashes
  }

  end(): void {
    if (this.#current !== undefined) this.#inHand.end(this.#current.id)
    this.#current = undefined
  }
}
