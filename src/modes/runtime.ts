import type pg from 'pg'
import type { Gate } from '../basics/gate.ts'
import type { Control } from '../connection/control.ts'
import type { InHand } from '../crash/in-hand.ts'
import type { Work } from '../handle/batch-run.ts'
import type { EnqueueIn } from '../handle/run-context.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { QueueDefinition } from '../queues.ts'
import type { Alphabet } from '../session/alphabet.ts'
import type { SettledMessage } from '../settle/settlement.ts'
import type { Report } from '../telemetry/events.ts'
import type { Scheduler } from '../wake-up/scheduler.ts'

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
export interface Consumption<Plan extends PipelinePlan = PipelinePlan> {
  readonly plan: Plan
  readonly definition: QueueDefinition | undefined
  readonly work: Work
  readonly enqueue: EnqueueIn
  /** Hears of every message that a committed batch has settled. */
  readonly onSettled?: ((settled: readonly SettledMessage[]) => void) | undefined
  readonly onEnded?: (() => void) | undefined
}
