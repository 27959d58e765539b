import type pg from 'pg'
import type { Alphabet } from '../connection/alphabet.ts'
import type { Control } from '../connection/control.ts'
import type { QueueDefinition } from '../queues.ts'
import type { Report } from '../telemetry.ts'
import type { Scheduler } from '../wake-up/scheduler.ts'
import type { Work } from './batch-run.ts'
import type { Gate } from './gate.ts'
import type { InHand } from './in-hand.ts'
import type { PipelinePlan } from './options.ts'
import type { EnqueueIn } from './run-context.ts'
import type { SettledMessage } from './settlement.ts'

/** What every consumer of a process shares. */
export interface Runtime {
  readonly pool: pg.Pool
  /** Another pool of the same kind. */
  readonly createPool: () => pg.Pool
  readonly connectTimeoutMs: number
  readonly alphabet: Alphabet
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
