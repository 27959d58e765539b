import type { Message } from '../message.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { QueueDefinition } from '../queues.ts'
import type { SettledMessage } from '../settle/settled-messages.ts'
import type { Meter } from '../statistics/meter.ts'
import type { HasPeer } from '../statistics/peer-state.ts'
import type { Execute } from '../table/statement.ts'
import type { Report } from '../telemetry/events.ts'
import type { Instruments } from '../telemetry/instrument.ts'
import type { LateSubject } from './handler-timeout.ts'
import type { Inside } from './inside.ts'
import type { EnqueueIn, RunContext } from './run-context.ts'

/** What is consumed, and by which handler. It is handed on as it is, from `start()` to the batch. */
export interface Consumption<Plan extends PipelinePlan = PipelinePlan> {
  readonly plan: Plan
  readonly handler: AnyHandler
  /** Measures what is done. */
  readonly meter: Meter
  /** Called with the messages that a committed batch has settled. */
  readonly onSettled?: ((settled: readonly SettledMessage[]) => void) | undefined
  /** By what a relay's messages leave the database. Without it their payload goes through the schema of their queue. */
  readonly outlet?: Outlet | undefined
  /** The handler that waits for the end of this: it has called `runOnce`. */
  readonly calledIn?: Inside | undefined
  /** Called for each attempt that failed with an error. */
  readonly onFailed?: ((error: unknown, message: Message) => void) | undefined
}

/** While what is behind it is out of reach nothing is claimed, and so no transaction is open. */
export interface Outlet extends HasPeer {
  /** No further claim may leave with a COMMIT. */
  readonly isDown: boolean
  /** Waits until something may be claimed. Undefined: nothing is claimed this time. */
  enter(execute: Execute, draining: AbortSignal): Promise<Passage | undefined>
  close(): Promise<void>
}

/** Leave to claim, until it is {@link over}. */
export interface Passage {
  /** One message, to find out whether it gets through. */
  readonly isProbe: boolean
  over(): void
}

/** A handler without the types of the user's queues: one message per call, or a whole batch. */
export type AnyHandler =
  | {
      readonly kind: 'each'
      readonly handle: (message: Message, context: RunContext) => unknown
      /** What is late when the time is up. Default: the handler. */
      readonly late?: LateSubject
    }
  | { readonly kind: 'batch'; readonly handle: (messages: readonly Message[], context: RunContext) => unknown }

/** What the handlers of a process share. */
export interface HandlerRuntime {
  readonly report: Report
  readonly instruments: Readonly<Instruments>
  readonly crashLimit: number
  /** Enqueues in the transaction of a handler. */
  readonly enqueue: EnqueueIn
  /** The schema of what is consumed. */
  readonly definitionOf: (plan: PipelinePlan) => QueueDefinition | undefined
}
