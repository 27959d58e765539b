import { pause } from '../basics/time/pause.ts'
import { DeliveredMessage } from '../claim/delivered-message.ts'
import { errorText } from '../errors.ts'
import { fittedPayload } from '../handle/admit.ts'
import type { Message } from '../message.ts'
import type { QueueDefinition } from '../queues.ts'
import { spentReason } from '../settle/decide.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'
import type { SluiceEvent } from '../telemetry/events.ts'

/** Claimed rows as messages, and those that do not fit the schema of their queue. */
export interface Accepted {
  readonly messages: readonly Message[]
  readonly unfit: readonly UnfitMessage[]
}

/** A message that no caller gets, and why. */
export interface UnfitMessage {
  readonly message: DeliveredMessage
  readonly error: string
}

/**
 * Validates payloads by the schema of their queue, as a pipeline does. A schema that does not answer within `ms` counts as
 * failed, for the messages that it has not answered: they are validated side by side, so that one does not use up the time of
 * the others.
 */
export async function accept(
  queue: string,
  rows: readonly ClaimedRow[],
  definition: QueueDefinition | undefined,
  ms: number,
): Promise<Accepted> {
  const delivered = rows.map((row) => new DeliveredMessage(queue, row))
  if (definition?.schema === undefined) return { messages: delivered.map(({ handed }) => handed), unfit: [] }
  const done = new AbortController()
  const late = pause(ms, done.signal).then(() => 'The schema did not answer in time')
  const errors = await Promise.all(delivered.map((message) => Promise.race([errorOf(message, definition), late])))
  done.abort()
  const messages: Message[] = []
  const unfit: UnfitMessage[] = []
  for (const [at, message] of delivered.entries()) {
    const error = errors[at]
    if (error === undefined) messages.push(message.handed)
    else unfit.push({ message, error })
  }
  return { messages, unfit }
}

/** Undefined: it fits. */
async function errorOf(message: DeliveredMessage, definition: QueueDefinition): Promise<string | undefined> {
  try {
    message.accept(await fittedPayload(message, definition))
    return undefined
  } catch (error) {
    return errorText(error)
  }
}

/** What is reported of a message that does not fit. `dead`: it is a dead letter now. */
export function unfitEvent({ message, error }: UnfitMessage, dead: boolean, retryInMs: number): SluiceEvent {
  const { queue, id, attempt } = message
  const common = { queue, id, type: message.row.type, attempt, error }
  // The attempt that was the last one is also the number of those that were allowed.
  if (dead) return { ...common, kind: 'message.dead', reason: spentReason(attempt, attempt) }
  return { ...common, kind: 'message.failed', retryInMs }
}
