import type { SluiceEvent } from '../telemetry/events.ts'
import type { Refused } from './accept.ts'

/** What is reported of a message that its schema refused or failed on; dead: it is a dead letter now. */
export function refusalEvent({ message, error }: Refused, dead: boolean, retryInMs: number): SluiceEvent {
  const { queue, id, attempt } = message
  const common = { queue, id, type: message.row.type, attempt, error }
  // The attempt that was the last one is also the number of those that were allowed.
  if (dead) return { ...common, kind: 'message.dead', reason: `failed ${attempt} of ${attempt} attempts` }
  return { ...common, kind: 'message.failed', retryInMs }
}
