import { toError } from '../errors.ts'
import type { BatchEvent } from './events/batch-event.ts'
import type { ConnectionEvent } from './events/connection-event.ts'
import type { EndpointEvent } from './events/endpoint-event.ts'
import type { MessageEvent } from './events/message-event.ts'
import type { PeerEvent } from './events/peer-event.ts'
import type { PipelineEvent } from './events/pipeline-event.ts'
import type { ScheduleEvent } from './events/schedule-event.ts'
import type { WorkerEvent } from './events/worker-event.ts'

/** Everything that Sluice reports while it runs. `queue` is the queue concerned; durations are in milliseconds. */
export type SluiceEvent =
  | ConnectionEvent
  | WorkerEvent
  | PipelineEvent
  | BatchEvent
  | MessageEvent
  | ScheduleEvent
  | PeerEvent
  | EndpointEvent

/**
 * Adds what was thrown to an event, as a property that is not enumerable, so that a log of the event does not have it.
 */
export function withCause(event: SluiceEvent, thrown: unknown): SluiceEvent {
  return thrown === undefined ? event : Object.defineProperty(event, 'cause', { value: toError(thrown) })
}

/** Reports an event. */
export type Report = (event: SluiceEvent) => void
