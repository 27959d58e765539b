import type { UnavailableCause } from '../../basics/errors/unavailable-cause.ts'

/** Of a relay, or of an inbox. */
export type PeerEvent =
  /**
   * The `destination` of a relay has been of no use `since` then, for this reason. Nothing is claimed until it is tried again,
   * after `retryInMs`. Reported for each try that fails. `cause` and `error` are those of the last try, and may change meanwhile.
   */
  | {
      readonly kind: 'relay.unavailable'
      readonly queue: string
      readonly destination: string
      readonly cause: UnavailableCause
      readonly error: string
      readonly since: Date
      readonly retryInMs: number
    }
  /** The destination of a relay, which had been out of reach `since` then, has stored a message, or answered to one. */
  | { readonly kind: 'relay.available'; readonly queue: string; readonly destination: string; readonly since: Date }
  /** An inbox of this process receives, from the `receiver`, or waits for it. */
  | { readonly kind: 'inbox.started'; readonly queue: string; readonly receiver: string; readonly batchSize: number }
  /**
   * An inbox has stored a batch, and acks it now: how many messages it has enqueued, how many copies it has dropped, and how
   * many messages are dead, because they can never be enqueued.
   */
  | {
      readonly kind: 'inbox.stored'
      readonly queue: string
      readonly receiver: string
      readonly enqueued: number
      readonly duplicates: number
      readonly dead: number
      readonly durationMs: number
    }
  /**
   * The broker of an inbox (`side: 'receiver'`), or the database, has been of no use `since` then, for this reason. It is tried
   * again after `retryInMs`. Reported for each try that fails. `cause` and `error` are those of the last try, and may change
   * meanwhile.
   */
  | {
      readonly kind: 'inbox.unavailable'
      readonly queue: string
      readonly receiver: string
      readonly side: 'receiver' | 'database'
      readonly cause: UnavailableCause
      readonly error: string
      readonly since: Date
      readonly retryInMs: number
    }
  /** The broker of an inbox, or the database, which had been of no use `since` then, can be used again. */
  | {
      readonly kind: 'inbox.available'
      readonly queue: string
      readonly receiver: string
      readonly side: 'receiver' | 'database'
      readonly since: Date
    }
