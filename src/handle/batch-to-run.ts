import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Decisions } from '../settle/settlement.ts'
import type { ClaimClock } from '../statistics/meter.ts'
import type { Attempt } from './attempt.ts'
import type { KeyOf } from './blocked-keys.ts'

/** A claimed batch, as its mode gives it to its handlers. */
export interface BatchToRun {
  /** Makes what the next call of the handler runs in. */
  readonly attempt: (messages: readonly DeliveredMessage[]) => Attempt
  /** Takes what is decided about each message. */
  readonly decisions: Decisions
  /** Interrupts a statement that runs on the server. */
  readonly cancel: () => Promise<void>
  /** When its messages were claimed: those whose life had ended by then are not handed out. */
  readonly clock?: ClaimClock | undefined
  /** In a group that stops, or has deferred as many as it may: the event's partition, all of which waits for a failed event. */
  readonly partitionOf?: KeyOf | undefined
}
