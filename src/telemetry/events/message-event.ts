/** Of one message, or one event of a stream. */
export type MessageEvent =
  /**
   * A handler failed or asked for a retry. `error` is the text in `last_error`. `cause` is what the handler threw, with
   * its stack. It is absent after `retryLater()`. It is not enumerable, so that a log of the whole event does not have
   * it: a database's error may quote a row. `traceId`: the trace of its enqueue, if its headers have a `traceparent`.
   * `destination`: a relay could not publish it there, such as to `nats`; then there is no `cause`.
   */
  | {
      readonly kind: 'message.failed'
      readonly queue: string
      readonly destination?: string
      readonly id: string
      readonly type: string | null
      readonly traceId?: string
      readonly attempt: number
      readonly error: string
      readonly cause?: Error
      readonly retryInMs: number
    }
  /**
   * A message went to the dead letters, for this `reason`, with its last `error` if there was one. The others as above.
   */
  | {
      readonly kind: 'message.dead'
      readonly queue: string
      readonly destination?: string
      readonly id: string
      readonly type: string | null
      readonly traceId?: string
      readonly attempt: number
      readonly reason: string
      readonly error: string | null
      readonly cause?: Error
    }
  /**
   * An event of a group that stops has failed for good, for this `reason`: nothing of its `partition` is delivered until
   * `operate.groups.retry` or `skipEvent`. `error`, `cause` and `destination` as above.
   */
  | {
      readonly kind: 'partition.stopped'
      readonly queue: string
      readonly destination?: string
      readonly partition: number
      readonly position: number
      readonly type: string | null
      readonly attempt: number
      readonly reason: string
      readonly error: string | null
      readonly cause?: Error
    }
  /**
   * A message was cancelled in flight: it is gone, and its handler's writes through `tx` are rolled back. Cancelling a
   * waiting message reports nothing.
   */
  | {
      readonly kind: 'message.cancelled'
      readonly queue: string
      readonly id: string
      readonly type: string | null
      readonly attempt: number
    }
  /**
   * A message was claimed after the end of its life (`ttl`), and no handler has seen it: it was removed, or became a
   * dead letter, as the queue's `onExpiry` says. `attempt`: the number of failed attempts.
   */
  | {
      readonly kind: 'message.expired'
      readonly queue: string
      readonly id: string
      readonly type: string | null
      readonly attempt: number
      readonly expiredAt: Date
    }
  /**
   * Leased mode: a message's lease was lost before it was settled, because it was not renewed in time, its worker was taken
   * for dead, or nothing could be written. It is delivered again, or has been. Nothing was written, unless a
   * `settlement.failed` before it had no answer and the message has been claimed again since.
   */
  | { readonly kind: 'lease.lost'; readonly queue: string; readonly id: string; readonly attempt: number }
  /**
   * Leased mode: a handler threw, or returned something else than `ack()`, when its `transaction()` had committed. The
   * message is settled, and is not tried again. `error` and `cause` are as in `message.failed`.
   */
  | {
      readonly kind: 'outcome.ignored'
      readonly queue: string
      readonly id: string
      readonly type: string | null
      readonly attempt: number
      readonly error: string
      readonly cause?: Error
    }
  /**
   * A message has failed, and this process has no retry policy of its `name`, which the message or its queue gives. It
   * is retried by its queue's policy, or its pipeline's.
   */
  | { readonly kind: 'retryPolicy.unknown'; readonly queue: string; readonly id: string; readonly name: string }
  /** A retry policy threw; the message is tried again after one second. */
  | { readonly kind: 'retryPolicy.failed'; readonly queue: string; readonly id: string; readonly error: Error }
