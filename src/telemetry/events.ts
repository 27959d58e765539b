import type { UnavailableCause } from '../basics/unavailable-cause.ts'
import { type SluiceError, toError } from '../errors.ts'

/** Everything that Sluice reports while it runs. `queue` is the queue concerned; durations are in milliseconds. */
export type SluiceEvent =
  /** The worker process is connected and registered: it is in `sluice.workers`. */
  | { readonly kind: 'worker.started'; readonly workerId: number; readonly name: string }
  /** It has ended its work and is no longer in `sluice.workers`. */
  | { readonly kind: 'worker.stopped'; readonly workerId: number; readonly name: string }
  /** The first connection of the process failed. It is tried again after `retryInMs`, and pipelines wait for it. */
  | {
      readonly kind: 'connection.failed'
      readonly role: 'control'
      readonly error: Error
      readonly retryInMs: number
    }
  /**
   * A connection was lost, or cannot be restored for a new reason. Sluice tries again until it is restored.
   */
  | { readonly kind: 'connection.lost'; readonly role: 'control' | 'listener'; readonly error: Error }
  /** A lost connection has been restored. */
  | { readonly kind: 'connection.restored'; readonly role: 'control' | 'listener' }
  /** Notifications do not arrive (a transaction pooler?). Reported once; polling goes on. */
  | { readonly kind: 'listener.unavailable'; readonly error: Error }
  /**
   * The connection goes through a pooler that shares server sessions. `batches`: statements are not prepared by name,
   * which takes more time. `control`: only the poll wakes, and crashes are not counted. Each is reported once.
   */
  | { readonly kind: 'connection.pooled'; readonly role: 'batches' | 'control'; readonly reason: string }
  /**
   * How the connections of this process are shared, where `maxConnections` limits them: before its first pipeline
   * starts, and after each change. `batches`: how many each pipeline has, at most its `concurrency`; 0 in leased mode,
   * where all pipelines share those of `leased`. `calls`: enqueues in `ownTransaction`, operations and the like. `control`:
   * for control and listening.
   */
  | {
      readonly kind: 'connections.planned'
      readonly max: number
      readonly pipelines: readonly {
        readonly queue: string
        readonly mode: 'transactional' | 'leased'
        readonly concurrency: number
        readonly batches: number
      }[]
      readonly leased: number
      readonly calls: number
      readonly control: number
    }
  /** A pipeline of this process has begun to consume, with these options. `destination`: of a relay, such as `nats`. */
  | {
      readonly kind: 'pipeline.started'
      readonly queue: string
      readonly destination?: string
      readonly mode: 'transactional' | 'leased'
      readonly concurrency: number
      readonly batchSize: number
    }
  /**
   * A pipeline of this process has ended: it was drained or stopped, or, with an `error`, it could not start and
   * another attempt would not help. `by`: `onError` has stopped it after this error.
   */
  | { readonly kind: 'pipeline.stopped'; readonly queue: string; readonly error?: Error; readonly by?: 'onError' }
  /**
   * A queue has more messages than the option `backlog` of a pipeline says, or its oldest due one has been due for
   * longer. What is not the reason is null. `moreThan`: it was not counted further.
   */
  | {
      readonly kind: 'queue.backlog'
      readonly queue: string
      readonly moreThan: number | null
      readonly oldestMs: number | null
    }
  /** The option `onError` of a pipeline threw, or returned something else. The pipeline goes on. */
  | { readonly kind: 'onError.failed'; readonly queue: string; readonly error: Error }
  /**
   * A pipeline of this process claims no more, because its queue was paused, `by` whom and for which `reason`, or because
   * `pause()` was called: then both are null. Its messages in flight are still handled.
   */
  | {
      readonly kind: 'pipeline.paused'
      readonly queue: string
      readonly by: string | null
      readonly reason: string | null
    }
  /** It claims again. */
  | { readonly kind: 'pipeline.resumed'; readonly queue: string }
  /** A claim failed. The next one follows after `retryInMs`. */
  | { readonly kind: 'claim.failed'; readonly queue: string; readonly error: Error; readonly retryInMs: number }
  /**
   * Retention, or a trim, removed events before a group had read them; the `error` gives the positions. The group reads
   * nothing until it is moved. Each of its pipelines reports it once.
   */
  | { readonly kind: 'group.lostEvents'; readonly queue: string; readonly error: SluiceError }
  /** A batch was claimed. `oldestDueMs`: how long its oldest message had been due. */
  | { readonly kind: 'batch.claimed'; readonly queue: string; readonly messages: number; readonly oldestDueMs: number }
  /** A batch was committed: how many of its messages were settled in which way, and how long it took from its claim. */
  | {
      readonly kind: 'batch.committed'
      readonly queue: string
      readonly acked: number
      readonly retried: number
      readonly snoozed: number
      readonly dead: number
      readonly durationMs: number
    }
  /**
   * The messages of a batch are available again: without an `error`, because the pipeline was stopped before any of
   * them was handled, or a relay's destination took none of them; with an `error`, because the transaction was lost. If the loss counts as the failed attempt of a
   * message that ran alone, `message.failed` or `message.dead` is reported first. If the database or the network may be
   * the reason, the next claim waits for `retryInMs`.
   */
  | {
      readonly kind: 'batch.released'
      readonly queue: string
      readonly messages: number
      readonly error?: Error
      readonly retryInMs?: number
    }
  /**
   * `handleBatch` failed for several messages at once. Each is now handled alone, so that only the one to blame fails.
   * If none fails, only this event tells of the error. `error` and `cause` are as in `message.failed`.
   */
  | {
      readonly kind: 'batch.failed'
      readonly queue: string
      readonly messages: number
      readonly error: string
      readonly cause?: Error
    }
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
  /** Leased mode: settlements or renewals could not be written, and are tried again after `retryInMs`. */
  | { readonly kind: 'settlement.failed'; readonly queue: string; readonly error: Error; readonly retryInMs: number }
  /**
   * A message has failed, and this process has no retry policy of its `name`, which the message or its queue gives. It
   * is retried by its queue's policy, or its pipeline's.
   */
  | { readonly kind: 'retryPolicy.unknown'; readonly queue: string; readonly id: string; readonly name: string }
  /** A retry policy threw; the message is tried again after one second. */
  | { readonly kind: 'retryPolicy.failed'; readonly queue: string; readonly id: string; readonly error: Error }
  /**
   * An attempt to migrate was rolled back because others held a lock. The next one begins after `retryInMs`.
   */
  | {
      readonly kind: 'migration.delayed'
      readonly attempt: number
      readonly attempts: number
      readonly error: Error
      readonly retryInMs: number
    }
  /**
   * `sluice/http`: a request was answered with 500 or 503, or with 200 although a part of its settlements failed, and
   * its client was not told why. `request` is its method and path.
   */
  | { readonly kind: 'request.failed'; readonly request: string; readonly status: number; readonly error: Error }
  /**
   * This process has made a pass of maintenance: how many expired messages, dead letters, dedupe keys, receipts and messages
   * of the history it removed, and how many days of the history it dropped or made ahead. `leftovers`: claims that are over, and
   * evidence about messages that are gone. Not `finished`: the next pass goes on.
   */
  | {
      readonly kind: 'maintenance.done'
      readonly expired: number
      readonly deadLetters: number
      readonly dedupeKeys: number
      readonly receipts: number
      readonly history: number
      readonly historyDropped: number
      readonly historyPartitions: number
      readonly leftovers: number
      readonly segments: number
      readonly segmentsDropped: number
      readonly finished: boolean
      readonly durationMs: number
    }
  /** A task of maintenance failed. The other tasks went on, and the next pass tries it again. */
  | { readonly kind: 'maintenance.failed'; readonly task: string; readonly error: Error }
  /**
   * The server refuses the worker's row of `sluice.worker_activity`. It is reported once, and tried again every minute. Messages
   * are handled all the same.
   */
  | { readonly kind: 'activity.failed'; readonly error: Error }
  /** This process has enqueued an occurrence of a schedule, `lateMs` after its time. `id` is the message's. */
  | {
      readonly kind: 'schedule.fired'
      readonly queue: string
      readonly schedule: string
      readonly id: string
      readonly scheduledFor: Date
      readonly lateMs: number
    }
  /**
   * Occurrences of a schedule were not enqueued. `late`: no worker looked in time, and `missed` skips them; long gaps
   * count up to 1,000. `overlap`: the last message still exists.
   */
  | {
      readonly kind: 'schedule.missed'
      readonly queue: string
      readonly schedule: string
      readonly occurrences: number
      readonly reason: 'late' | 'overlap'
    }
  /**
   * The next occurrence of a schedule could not be computed, or enqueued. This process tries again after `retryInMs`;
   * another one may do so before.
   */
  | {
      readonly kind: 'schedule.failed'
      readonly queue: string
      readonly schedule: string
      readonly error: Error
      readonly retryInMs: number
    }
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
  /**
   * An endpoint has answered to nothing but failures `since` then, for a fifth of the time after which it is disabled. `error`
   * is that of the last attempt. Reported once, by the process that has noted it.
   */
  | {
      readonly kind: 'endpoint.failing'
      readonly queue: string
      readonly endpoint: string
      readonly since: Date
      readonly error: string
    }
  /**
   * A worker has disabled an endpoint, after nothing but failures `since` then, or because it has answered 410. Its messages
   * wait or, after a 410, become dead letters.
   */
  | {
      readonly kind: 'endpoint.disabled'
      readonly queue: string
      readonly endpoint: string
      readonly since: Date | null
      readonly reason: string
    }
  /**
   * The name in the URL of an endpoint leads to this address, which is not public and not allowed by `networks`: nothing was
   * sent. Reported for each attempt. The errors of the endpoint and of its message do not have the address.
   */
  | { readonly kind: 'endpoint.refused'; readonly queue: string; readonly endpoint: string; readonly address: string }
  /** What became of an attempt could not be noted for its endpoint. The message is settled all the same. */
  | { readonly kind: 'endpoint.unnoted'; readonly queue: string; readonly endpoint: string; readonly error: Error }
  /**
   * `sluice/otel`: a call of OpenTelemetry's SDK threw. Nothing else failed: spans or metrics are missing. Reported once.
   */
  | { readonly kind: 'telemetry.failed'; readonly error: Error }
  /** A worker process vanished with messages in flight. */
  | {
      readonly kind: 'worker.crashed'
      readonly workerId: number
      readonly worker: string
      readonly messages: number
    }

/**
 * Adds what was thrown to an event, as a property that is not enumerable, so that a log of the event does not have it.
 */
export function withCause(event: SluiceEvent, thrown: unknown): SluiceEvent {
  return thrown === undefined ? event : Object.defineProperty(event, 'cause', { value: toError(thrown) })
}

/** Reports an event. */
export type Report = (event: SluiceEvent) => void
