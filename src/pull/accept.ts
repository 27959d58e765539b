import { pause } from '../basics/pause.ts'
import { DeliveredMessage } from '../claim/delivered-message.ts'
import { errorText } from '../errors.ts'
import { deadLetter, type Message, type Outcome, retryLater } from '../message.ts'
import { type QueueDefinition, validatePayload } from '../queues.ts'
import { retryPolicy } from '../retry-policy.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'

/** Claimed rows as messages, and those that nobody is to get. */
export interface Accepted {
  readonly messages: readonly Message[]
  readonly refused: readonly Refused[]
}

/** A message that nobody is to get, and what becomes of it. */
export interface Refused {
  readonly message: DeliveredMessage
  readonly outcome: Outcome
}

/**
 * Validates payloads by the schema of their queue, as a pipeline does: what does not fit becomes a dead letter, and what
 * the schema fails on is tried again. A schema that does not answer within `ms` counts as failed.
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
  const late = pause(ms, done.signal)
  const messages: Message[] = []
  const refused: Refused[] = []
  for (const message of delivered) {
    const outcome = await Promise.race([
      check(message, definition),
      late.then(() => failed(message, 'The schema did not answer in time')),
    ])
    if (outcome === undefined) messages.push(message.handed)
    else refused.push({ message, outcome })
  }
  done.abort()
  return { messages, refused }
}

/** What becomes of a message that nobody is to get; undefined: it fits. */
async function check(message: DeliveredMessage, definition: QueueDefinition): Promise<Outcome | undefined> {
  try {
    const checked = await validatePayload(definition, message.payload)
    if ('issues' in checked) return deadLetter('the payload does not fit its schema', checked.issues)
    message.accept(checked.value)
    return undefined
  } catch (error) {
    return failed(message, errorText(error))
  }
}

/** The wait is that of a pipeline without options, drawn here so that it can be reported. */
function failed(message: DeliveredMessage, error: string): Outcome {
  return retryLater({ after: RETRY(message.attempt, error), error })
}

const RETRY = retryPolicy(undefined)
