import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { hasExpired } from '../claim/has-expired.ts'
import { type QueueDefinition, validatePayload } from '../queues.ts'
import type { ClaimClock } from '../statistics/meter.ts'
import type { Deadline } from './deadline.ts'

/** Why no handler is to see a message. */
export type Refusal =
  /** It was cancelled. */
  | { readonly kind: 'cancelled' }
  /** Its life had ended when it was claimed. */
  | { readonly kind: 'expired' }
  /** It killed its process too often. */
  | { readonly kind: 'harmful'; readonly reason: string }
  /** Its last try was lost, and other workers may have taken it before that could be written. */
  | { readonly kind: 'lost try'; readonly error: string }

export interface RefusalRules {
  readonly isCancelled: boolean
  /** When it was claimed. */
  readonly clock: ClaimClock | undefined
  readonly crashLimit: number
}

/** Why a message is refused, by what is known without its payload. */
export function refusalOf(
  message: DeliveredMessage,
  { isCancelled, clock, crashLimit }: RefusalRules,
): Refusal | undefined {
  if (isCancelled) return { kind: 'cancelled' }
  if (hasExpired(message.row, clock?.nowUs)) return { kind: 'expired' }
  const { evidence, lostTry } = message
  if (evidence?.crashedAlone && evidence.crashes >= crashLimit) {
    const reason = `crashed: ${evidence.crashes} processes died or hung while they handled this message`
    return { kind: 'harmful', reason }
  }
  return lostTry === undefined ? undefined : { kind: 'lost try', error: lostTry.error }
}

/**
 * The payload as the schema makes it. A payload that does not fit its schema is a failed attempt like any
 * other: while versions of an application run side by side, the next worker may take it.
 *
 * @throws SluiceError PAYLOAD_SCHEMA, and what the schema throws
 */
export async function fittedPayload(message: DeliveredMessage, definition: QueueDefinition): Promise<unknown> {
  return validatePayload(definition, message.payload)
}

/**
 * Gives a message its payload as the schema makes it. What the schema waits for takes the time of a handler of its own.
 *
 * @throws SluiceError PAYLOAD_SCHEMA, HANDLER_TIMEOUT, the reason for which the batch ends, and what the schema throws
 */
export async function acceptPayload(
  message: DeliveredMessage,
  definition: QueueDefinition | undefined,
  deadline: Deadline,
): Promise<void> {
  if (definition?.schema === undefined) return
  deadline.next()
  message.accept(await deadline.await(fittedPayload(message, definition)))
}
