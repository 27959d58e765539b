import type { SluiceEvent } from '../telemetry/events.ts'
import type { Refused } from './accept.ts'

/** What is reported of a message that its schema refused or failed on; dead: it is a dead letter now. */
export function refusalEvent({ message, outcome }: Refused, dead: boolean): SluiceEvent {
  const { queue, id, attempt } = message
  const common = { queue, id, type: message.row.type, attempt }
  if (outcome.kind === 'deadLetter') {
    return { ...common, kind: 'message.dead', reason: outcome.reason, error: outcome.error ?? null }
  }
  const { error = '', afterMs = 0 } = { error: undefined, afterMs: undefined, ...outcome }
  // The attempt that was the last one is also the number of those that were allowed.
  if (dead) return { ...common, kind: 'message.dead', reason: `failed ${attempt} of ${attempt} attempts`, error }
  return { ...common, kind: 'message.failed', error, retryInMs: afterMs }
}
