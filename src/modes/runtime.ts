import type pg from 'pg'
import type { Gate } from '../basics/gate.ts'
import type { InHand } from '../crash/in-hand.ts'
import type { Work } from '../handle/batch-run-options.ts'
import type { EnqueueIn } from '../handle/run-context.ts'
import type { Message } from '../message.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { QueueDefinition } from '../queues.ts'
import type { SettledMessage } from '../settle/settled-messages.ts'
import type { SourceRuntime } from '../source/rules-of.ts'
import type { Meter } from '../statistics/meter.ts'
import type { Scheduler } from '../wake-up/scheduler.ts'
import type { Cancellations } from './cancellations.ts'

/** What every consumer of a process shares. */
export interface Runtime extends SourceRuntime {
  readonly pool: pg.Pool
  /** Another pool of the same kind. */
  readonly createPool: () => pg.Pool
  readonly connectTimeoutMs: number
  readonly scheduler: Scheduler
  readonly inHand: InHand
  readonly gate: Gate
  readonly crashLimit: number
  readonly cancellations: Cancellations
}

/** What is consumed, and how. */
export interface Consumption<Plan extends PipelinePlan = PipelinePlan> {
  readonly plan: Plan
  readonly definition: QueueDefinition | undefined
  readonly work: Work
  readonly enqueue: EnqueueIn
  /** Hears of every message that a committed batch has settled. */
  readonly onSettled?: ((settled: readonly SettledMessage[]) => void) | undefined
  /** Hears of each attempt that failed with an error. */
  readonly onFailed?: ((error: unknown, message: Message) => void) | undefined
  /** Measures what is done. */
  readonly meter?: Meter | undefined
  readonly onEnded?: (() => void) | undefined
}
