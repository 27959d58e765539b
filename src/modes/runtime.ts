import type pg from 'pg'
import type { Gate } from '../basics/gate.ts'
import type { Control } from '../connection/control.ts'
import type { InHand } from '../crash/in-hand.ts'
import type { Work } from '../handle/batch-run-options.ts'
import type { EnqueueIn } from '../handle/run-context.ts'
import type { Message } from '../message.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { QueueDefinition } from '../queues.ts'
import type { RetryPolicies } from '../retry-policy.ts'
import type { Alphabet } from '../session/alphabet.ts'
import type { Settings } from '../settings/settings.ts'
import type { SettledMessage } from '../settle/settled-messages.ts'
import type { Meter } from '../statistics/meter.ts'
import type { Report } from '../telemetry/events.ts'
import type { Scheduler } from '../wake-up/scheduler.ts'
import type { Cancellations } from './cancellations.ts'

/** What every consumer of a process shares. */
export interface Runtime {
  readonly pool: pg.Pool
  /** Another pool of the same kind. */
  readonly createPool: () => pg.Pool
  readonly connectTimeoutMs: number
  readonly alphabet: Alphabet
  readonly control: Control
  readonly scheduler: Scheduler
  /** What queues have been told. */
  readonly settings: Settings
  /** Those that have names. */
  readonly retryPolicies: RetryPolicies | undefined
  readonly inHand: InHand
  readonly serverVersion: () => number
  /** As the database can hold it. */
  readonly workerName: () => string
  /** The same, if the queue keeps a history of what has succeeded. */
  readonly historyBy: (queue: string) => string | undefined
  readonly gate: Gate
  readonly crashLimit: number
  readonly report: Report
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
