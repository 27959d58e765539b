import { checkKeys } from './basics/checks/check-keys.ts'
import { type Duration, toMs, toMsWithin } from './basics/time/duration.ts'
import { errorText, expected } from './errors.ts'

/** The states of a message, derived from its row and never stored. `dead` messages are in another table. */
export const MESSAGE_STATES = ['scheduled', 'ready', 'in_flight', 'retrying', 'expired', 'dead'] as const
/** One of {@link MESSAGE_STATES}. */
export type MessageState = (typeof MESSAGE_STATES)[number]

/** The states of messages that are in a queue. */
export const QUEUED_STATES = MESSAGE_STATES.filter((state) => state !== 'dead')

/** Of these, the states of messages that are not in flight. */
export const WAITING_STATES = QUEUED_STATES.filter((state) => state !== 'in_flight')

/** A value that JSON can hold. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json | undefined }

/** Metadata that travels with a message: an object of JSON values. */
export type Headers = Readonly<Record<string, Json>>

/** One message as its handler sees it. */
export interface Message<Payload = unknown> {
  /**
   * Unique in the database, and the same through every retry, death and redrive: deduplicate outside effects by it. The
   * id of an event is `<stream>/<position>`, in all groups.
   */
  readonly id: string
  /** The name of its queue; of an event, its group's. */
  readonly queue: string
  /** The stream that it is an event of; null: it is none. */
  readonly stream: string | null
  /** Its position in the stream: events of one stream have ascending ones, with gaps. Null: it is no event. */
  readonly position: number | null
  /** Dot-separated, for `routes()`; null if none was given. */
  readonly type: string | null
  /** The version of the payload's schema, as it was enqueued, from 1. */
  readonly schemaVersion: number
  /** As the schema of the queue returns it or, without a schema, as JSON gives it back. */
  readonly payload: Payload
  /** The metadata that was enqueued with it; an empty object if there was none. */
  readonly headers: Headers
  /** Messages with the same key are handled one at a time, in order; null if none was given. */
  readonly orderingKey: string | null
  /** 0 (first) to 9; 5 if none was given. */
  readonly priority: number
  /** The number of this attempt, from 1. Failed attempts and those whose process died count; snoozing does not. */
  readonly attempt: number
  /** The number of failed attempts after which it becomes a dead letter; null if the pipeline's number applies. */
  readonly maxAttempts: number | null
  /** Its tenant; null if none was given. */
  readonly tenant: string | null
  /** Its dedupe key; null if none was given. */
  readonly dedupeKey: string | null
  /** When it was enqueued, by the database's clock. */
  readonly enqueuedAt: Date
  /** When it was due this time, by the database's clock. */
  readonly dueAt: Date
  /** The end of its life, from its `ttl`: from then on it is not handed out again. Null: it never expires. */
  readonly expiresAt: Date | null
}

/** An event of a stream as a group's handler sees it. */
export interface EventMessage<Payload = unknown> extends Message<Payload> {
  /** The stream that it is an event of. */
  readonly stream: string
  /** Its position in the stream: later ones are greater, with gaps. */
  readonly position: number
}

/** What happens to a message: acked (removed), retried later, or moved to the dead letters. */
export type Outcome =
  | { readonly kind: 'ack'; readonly dedupeForMs?: number | undefined }
  | {
      readonly kind: 'retryLater'
      readonly afterMs?: number | undefined
      readonly atLeastMs?: number | undefined
      readonly error?: string | undefined
    }
  | { readonly kind: 'snooze'; readonly afterMs: number }
  | { readonly kind: 'deadLetter'; readonly reason: string; readonly error?: string | undefined }

/**
 * Handled: the message is removed when the batch commits. Returning nothing means the same. `dedupeFor`: for how long its
 * dedupe key stays taken from now on, up to 100 years, instead of what the message asks for; 0: it is free.
 *
 * @example return ack({ dedupeFor: '10m' })
 * @throws SluiceError OPTION_INVALID
 */
export function ack(options: { readonly dedupeFor?: Duration } = {}): Outcome {
  return ackBy('ack', options)
}

/** As {@link ack}, with the name of the function for errors. */
export function ackBy(name: string, options: { readonly dedupeFor?: Duration } = {}): Outcome {
  checkKeys(name, options, ['dedupeFor'], `As in ${name}({ dedupeFor: '10m' })`)
  const { dedupeFor } = options
  if (dedupeFor === undefined) return { kind: 'ack' }
  return { kind: 'ack', dedupeForMs: toMsWithin(`${name}.dedupeFor`, dedupeFor, '0ms') }
}

/** When a failed message is tried again, and why it has failed. */
export interface RetryLaterOptions {
  /** In how long. @default the retry policy says when */
  readonly after?: Duration
  /** The retry policy says when, but not sooner than this, such as the `Retry-After` of an HTTP server. */
  readonly atLeast?: Duration
  /** Why, for others to see. */
  readonly error?: unknown
}

/**
 * Failed: try again, counting an attempt. Without `after` the retry policy says when, and with `atLeast` not sooner than that.
 *
 * @example return retryLater({ after: '5m' })
 * @throws SluiceError OPTION_INVALID
 */
export function retryLater(options: RetryLaterOptions = {}): Outcome {
  return retryBy('retryLater', options)
}

/** As {@link retryLater}, with the name of the function for errors. */
export function retryBy(name: string, options: RetryLaterOptions = {}): Outcome {
  checkKeys(name, options, ['after', 'atLeast', 'error'], `As in ${name}({ after: '5m' })`)
  const { after, atLeast, error } = options
  if (after !== undefined && atLeast !== undefined) {
    const remedy = 'after replaces the retry policy, and atLeast does not'
    throw expected('OPTION_INVALID', name, 'after or atLeast', 'both', remedy)
  }
  return {
    kind: 'retryLater',
    ...(after === undefined ? {} : { afterMs: toMs(after, `${name}.after`) }),
    ...(atLeast === undefined ? {} : { atLeastMs: toMs(atLeast, `${name}.atLeast`) }),
    ...(error === undefined ? {} : { error: errorText(error) }),
  }
}

/**
 * Not now: deliver again later without counting an attempt. The handler's writes through `tx` are kept, because
 * nothing failed.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function snooze(options: { readonly after: Duration }): Outcome {
  return snoozeBy('snooze', options)
}

/** As {@link snooze}, with the name of the function for errors. */
export function snoozeBy(name: string, options: { readonly after: Duration }): Outcome {
  checkKeys(name, options, ['after'], `As in ${name}({ after: '5m' })`)
  return { kind: 'snooze', afterMs: toMs(options.after, `${name}.after`) }
}

/**
 * Give up now: move the message to the dead letters with this reason. Writes through `tx` are rolled back. An empty
 * reason, or one of spaces alone, becomes `no reason given`: an error may have no message.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function deadLetter(reason: string, error?: unknown): Outcome {
  return deadLetterBy('deadLetter', reason, error)
}

/** As {@link deadLetter}, with the name of the function for errors. */
export function deadLetterBy(name: string, reason: string, error?: unknown): Outcome {
  if (typeof reason !== 'string') {
    const remedy = `As in ${name}('card expired', error)`
    throw expected('OPTION_INVALID', name, 'a reason as text', reason, remedy)
  }
  return {
    kind: 'deadLetter',
    reason: reason.trim() === '' ? NO_REASON : reason,
    ...(error === undefined ? {} : { error: errorText(error) }),
  }
}

const NO_REASON = 'no reason given'
