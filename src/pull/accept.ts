import { pause } from '../basics/pause.ts'
import { DeliveredMessage } from '../claim/delivered-message.ts'
import { errorText } from '../errors.ts'
import { fitSchema } from '../handle/admit.ts'
import type { Message } from '../message.ts'
import type { QueueDefinition } from '../queues.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'

/** Claimed rows as messages, and those that nobody is to get. */
export interface Accepted {
  readonly messages: readonly Message[]
  readonly refused: readonly Refused[]
}

/** A message that nobody is to get, and why. */
export interface Refused {
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
  if (definition?.schema === undefined) return { messages: delivered.map(({ handed }) => handed), refused: [] }
  const done = new AbortController()
  const late = pause(ms, done.signal).then(() => 'The schema did not answer in time')
  const errors = await Promise.all(delivered.map((message) => Promise.race([errorOf(message, definition), late])))
  done.abort()
  const messages: Message[] = []
  const refused: Refused[] = []
  for (const [at, message] of delivered.entries()) {
    const error = errors[at]
    if (error === undefined) messages.push(message.handed)
    else refused.push({ message, error })
  }
  return { messages, refused }
}

/** Undefined: it fits. */
async function errorOf(message: DeliveredMessage, definition: QueueDefinition): Promise<string | undefined> {
  try {
    await fitSchema(message, definition)
    return undefined
  } catch (error) {
    return errorText(error)
  }
}
