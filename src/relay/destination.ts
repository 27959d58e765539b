import type { UnavailableCause } from '../basics/errors/unavailable-cause.ts'
import type { Message } from '../message.ts'

/**
 * Where a relay publishes: the whole contract of an adapter. An adapter has no loop, no timer, no retry and no SQL; the
 * relay has these, once for all. `conformance` of `sluice/testing` tries an adapter.
 */
export interface Destination {
  /** The name of its kind in events and reasons, such as `nats`. */
  readonly system: string
  /**
   * Returns the name and the value of the header for an attribute of a CloudEvent in binary mode, as the binding for the
   * protocol says. Undefined: there is no such mode, and a relay with the format `cloudevents-binary` is refused.
   *
   * @example cloudEventHeader: (attribute, value) => [`ce-${attribute}`, value]
   */
  readonly cloudEventHeader?: ((attribute: string, value: string) => readonly [name: string, value: string]) | undefined
  /**
   * Whether the messages with one `orderingKey` in one call are stored as a prefix: what comes after a message that was not
   * stored is not stored either, and is `unavailable`; what comes after a refused one may be stored. The relay sends such a
   * destination a batch in one call; any other gets the next message of a key when the one before it is confirmed. @default false
   */
  readonly keepsOrder?: boolean | undefined
  /**
   * Connects, and checks what can be checked before the first message: that a named stream exists, for example. The relay
   * calls it again after each outage.
   *
   * @param signal aborts when the relay waits no longer: a connection that comes after that, it closes
   * @throws an error that names what cannot be reached; SluiceError OPTION_INVALID if the destination answers, and something is
   * missing there, not permitted or set otherwise than it must be
   */
  open(signal: AbortSignal): Promise<DestinationConnection>
}

/** An open destination. One connection serves all batches of a relay, side by side. */
export interface DestinationConnection {
  /** Why this message can never be published, without asking the destination; undefined: it may be. */
  check(message: OutgoingMessage): string | undefined
  /**
   * Publishes the messages in their order, without waiting in between, and returns one {@link Verdict} for each, in the
   * same order. When the signal aborts it returns at once: what has no answer yet is `unavailable`. If it rejects, all
   * messages of the call are `unavailable`, for the `cause` that the error gives as in {@link Destination.open}.
   */
  publish(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly Verdict[]>
  /** Closes the connection, also one that is broken, and waits for no answer. */
  close(): Promise<void>
}

/** What became of one message at its destination. */
export type Verdict =
  /** It is stored there, also if it was there already. */
  | { readonly kind: 'confirmed' }
  /** It can never be published: it becomes a dead letter, with `error` as the reason. */
  | { readonly kind: 'refused'; readonly error: string }
  /**
   * It was not stored, and may be later: a failed attempt. `afterMs`: when to try again, in milliseconds from now, instead of
   * when the retry policy says, such as the `Retry-After` of a service; at most a day.
   */
  | { readonly kind: 'failed'; readonly error: string; readonly afterMs?: number | undefined }
  /**
   * The destination gave no answer, or can store nothing now. It says nothing about the message, and counts no attempt. `cause`:
   * whether that passes by itself, or waits for a change by hand, such as a permission; by default `outage`.
   */
  | { readonly kind: 'unavailable'; readonly error: string; readonly cause?: UnavailableCause | undefined }

/** The verdict when the time is over. */
export const NO_CONFIRM: Verdict = { kind: 'unavailable', error: 'no confirm in time' }

/** A message on its way out. */
export interface OutgoingMessage {
  /**
   * `<source>/<message id>`, of an event `<source>/<stream>/<position>`: the same in every attempt, after a redrive, for all
   * groups and after a seek, and no other database's.
   */
  readonly id: string
  /** The name of the database, a UUID. */
  readonly source: string
  /** The payload as JSON, in UTF-8, as it is stored; in the format `cloudevents-structured` the whole CloudEvent. */
  readonly body: Uint8Array
  /**
   * The headers of the message, those that are no text as JSON, the relay's own, whose names begin with `sluice-`, and those
   * of the relay's format.
   */
  readonly headers: Readonly<Record<string, string>>
  /** The message, as a handler gets it. Its payload has not been through the schema of its queue. */
  readonly message: Message
}
