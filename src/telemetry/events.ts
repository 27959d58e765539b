import { type Observable, Subject } from 'rxjs'
import { errorText } from '../errors.ts'
import { GuardedObservable } from './guarded-observable.ts'
import { Lines, type SluiceLog, STDERR } from './log.ts'

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
  /** A pipeline of this process has begun to consume. */
  | { readonly kind: 'pipeline.started'; readonly queue: string }
  /**
   * A pipeline of this process has ended: it was drained or stopped, or, with an `error`, it could not start and
   * another attempt would not help.
   */
  | { readonly kind: 'pipeline.stopped'; readonly queue: string; readonly error?: Error }
  /** A claim failed. The next one follows after `retryInMs`. */
  | { readonly kind: 'claim.failed'; readonly queue: string; readonly error: Error; readonly retryInMs: number }
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
   * them was handled; with an `error`, because the transaction was lost. If the loss counts as the failed attempt of a
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
   * it: a database's error may quote a row.
   */
  | {
      readonly kind: 'message.failed'
      readonly queue: string
      readonly id: string
      readonly type: string | null
      readonly attempt: number
      readonly error: string
      readonly cause?: Error
      readonly retryInMs: number
    }
  /**
   * A message went to the dead letters, for this `reason`, with its last `error` if there was one. `cause` as above.
   */
  | {
      readonly kind: 'message.dead'
      readonly queue: string
      readonly id: string
      readonly type: string | null
      readonly attempt: number
      readonly reason: string
      readonly error: string | null
      readonly cause?: Error
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
   * `sluice/http`: a request was answered with 500 or 503, or with 200 although a part of its settlements failed, and its client
   * was not told why. `request` is its method and path.
   */
  | { readonly kind: 'request.failed'; readonly request: string; readonly status: number; readonly error: Error }
  /** A worker process vanished with messages in hand. */
  | { readonly kind: 'worker.crashed'; readonly workerId: number; readonly messages: number }

/**
 * Adds what was thrown to an event, as a property that is not enumerable, so that a log of the event does not have it.
 */
export function withCause(event: SluiceEvent, thrown: unknown): SluiceEvent {
  return thrown === undefined ? event : Object.defineProperty(event, 'cause', { value: toError(thrown) })
}

/** Reports an event. */
export type Report = (event: SluiceEvent) => void

export interface Telemetry {
  readonly report: Report
  readonly events: Observable<SluiceEvent>
  close(): void
}

/**
 * The stream of events, and the function that reports one. A subscriber that throws causes a warning and disturbs
 * nobody.
 *
 * @param log for lines about failures; false for none. By default they go to stderr while nobody subscribes.
 */
export function createTelemetry(log: SluiceLog | false | undefined): Telemetry {
  const subject = new Subject<SluiceEvent>()
  const lines = log === false ? undefined : new Lines(log ?? STDERR)
  const report = (given: SluiceEvent) => {
    const event = withJson(given)
    if (log !== undefined || !subject.observed) lines?.write(event)
    subject.next(event)
  }
  const close = () => {
    lines?.flush()
    subject.complete()
  }
  const events = new GuardedObservable<SluiceEvent>((subscriber) => subject.subscribe(subscriber))
  return { report, events, close }
}

/** JSON leaves out all that an Error says. Its cause stays out, because a database's error may quote a row. */
function withJson(event: SluiceEvent): SluiceEvent {
  if (!('error' in event) || !(event.error instanceof Error)) return event
  const { error } = event
  // Read only when asked for: what a handler has thrown may throw when it is read.
  const toJSON = () => ({
    ...event,
    error: { name: error.name, message: error.message, code: Reflect.get(error, 'code') as unknown },
  })
  return Object.defineProperty(event, 'toJSON', { value: toJSON, configurable: true })
}

/** Any thrown value as an Error. */
export function toError(thrown: unknown): Error {
  try {
    if (thrown instanceof Error) return thrown
  } catch {
    // A proxy whose traps throw.
  }
  return new Error(errorText(thrown), { cause: thrown })
}
