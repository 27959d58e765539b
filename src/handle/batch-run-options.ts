import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Message } from '../message.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { QueueDefinition } from '../queues.ts'
import type { Settlement } from '../settle/settlement.ts'
import type { ClaimClock, Meter } from '../statistics/meter.ts'
import type { Report } from '../telemetry/events.ts'
import type { Attempt } from './attempt.ts'
import type { KeyOf } from './blocked-keys.ts'
import type { Ending } from './ending.ts'
import type { LateSubject } from './handler-timeout.ts'
import type { RunContext } from './run-context.ts'

/** One message or a whole batch per call. */
export type Work =
  | {
      readonly kind: 'each'
      readonly handle: (message: Message, context: RunContext) => unknown
      /** What is late when the time is up. Default: the handler. */
      readonly late?: LateSubject
    }
  | { readonly kind: 'batch'; readonly handle: (messages: readonly Message[], context: RunContext) => unknown }

export interface BatchRunOptions {
  readonly plan: PipelinePlan
  readonly work: Work
  readonly definition: QueueDefinition | undefined
  /** Makes what the next call of the handler runs in. */
  readonly attempt: (messages: readonly DeliveredMessage[]) => Attempt
  readonly settlement: Pick<Settlement, 'add' | 'deadLetter' | 'expire' | 'cancel'>
  readonly report: Report
  readonly crashLimit: number
  /** Interrupts a statement that runs on the server. */
  readonly cancel: () => Promise<void>
  /** Aborts when nothing can come of the batch any more. */
  readonly signal: Ending
  /** Hears of each attempt that failed with an error. */
  readonly onFailed?: ((error: unknown, message: Message) => void) | undefined
  readonly meter?: Meter | undefined
  /** When its messages were claimed: those whose life had ended by then are not handed out. */
  readonly clock?: ClaimClock | undefined
  /** Where a group's slots wait: the slot of an event, all of which waits for one that has failed. */
  readonly slotOf?: KeyOf | undefined
}
