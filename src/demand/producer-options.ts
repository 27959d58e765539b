import type pg from 'pg'
import type { Control } from '../connection/control.ts'
import type { InHand } from '../crash/in-hand.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Report } from '../telemetry/events.ts'
import type { Scheduler } from '../wake-up/scheduler.ts'
import type { ClaimedBatch, ConsumedBatch } from './claimed-batch.ts'
import type { Gate } from './gate.ts'

export interface ProducerOptions {
  readonly plan: PipelinePlan
  readonly pool: pg.Pool
  readonly connectTimeoutMs: number
  readonly control: Control
  readonly scheduler: Scheduler
  readonly inHand: Pick<InHand, 'lookAhead' | 'isolation'>
  readonly serverVersion: () => number
  /** Shared by the process: a hundred idle queues that look at once take a few connections, not a hundred. */
  readonly gate: Gate
  readonly report: Report
  readonly onEnded?: (() => void) | undefined
  /** Takes a claimed batch over. Demand is the batches that have not ended: no row is claimed without one to spare. */
  readonly consume: (batch: ClaimedBatch) => ConsumedBatch
}
