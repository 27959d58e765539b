import { type Observable, Subject } from 'rxjs'
import { errorText } from './errors.ts'
import { GuardedObservable } from './guarded-observable.ts'

/** Everything that Sluice reports while it runs. `queue` is the queue concerned; durations are in milliseconds. */
export type SluiceEvent =
  | { readonly kind: 'worker.started'; readonly workerId: number; readonly name: string }
  | { readonly kind: 'worker.stopped'; readonly workerId: number; readonly name: string }
  /** The first connection of the process failed, and is tried again after `retryInMs`: pipelines wait for it. */
  | {
      readonly kind: 'connection.failed'
      readonly role: 'control'
      readonly error: Error
      readonly retryInMs: number
    }
  | { readonly kind: 'connection.lost'; readonly role: 'control' | 'listener'; readonly error: Error }
  | { readonly kind: 'connection.restored'; readonly role: 'control' | 'listener' }
  /** Notifications do not arrive (a transaction pooler?). Reported once; polling goes on. */
  | { readonly kind: 'listener.unavailable'; readonly error: Error }
  /**
   * A pooler that hands server sessions around. `batches`: prepared statements have no names, which takes more time.
   * `control`: no wake-ups but the poll's, and no counting of crashes. Each is reported once.
   */
  | { readonly kind: 'connection.pooled'; readonly role: 'batches' | 'control'; readonly reason: string }
  | { readonly kind: 'pipeline.started'; readonly queue: string }
  /** With an `error`: it could not start, and another attempt would not help. */
  | { readonly kind: 'pipeline.stopped'; readonly queue: string; readonly error?: Error }
  /** A claim failed and is tried again after `retryInMs`. */
  | { readonly kind: 'claim.failed'; readonly queue: string; readonly error: Error; readonly retryInMs: number }
  | { readonly kind: 'batch.claimed'; readonly queue: string; readonly messages: number; readonly oldestDueMs: number }
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
   * The batch's messages are available again: without an `error`, because the pipeline was stopped before any was done;
   * with one, because the transaction was lost. It is the failed attempt of a message that
   * ran alone and lost its transaction by itself: then `message.failed` or `message.dead` comes before it. If the database
   * or the way to it may be the reason, the next look waits for `retryInMs`.
   */
  | {
      readonly kind: 'batch.released'
      readonly queue: string
      readonly messages: number
      readonly error?: Error
      readonly retryInMs?: number
    }
  | {
      readonly kind: 'message.failed'
      readonly queue: string
      readonly id: string
      readonly attempt: number
      readonly error: string
      readonly retryInMs: number
    }
  | {
      readonly kind: 'message.dead'
      readonly queue: string
      readonly id: string
      readonly attempt: number
      readonly reason: string
    }
  /** A retry policy threw; the message is tried again after one second. */
  | { readonly kind: 'retryPolicy.failed'; readonly queue: string; readonly id: string; readonly error: Error }
  /** A worker process vanished with messages in hand. */
  | { readonly kind: 'worker.crashed'; readonly workerId: number; readonly messages: number }

/** Where the parts report to. */
export type Report = (event: SluiceEvent) => void

/** The stream of events, and the way to put one in. A subscriber that throws is warned about and disturbs nobody. */
export function createTelemetry(): {
  readonly report: Report
  readonly events: Observable<SluiceEvent>
  close(): void
} {
  const subject = new Subject<SluiceEvent>()
  return {
    report: (event) => subject.next(event),
    events: new GuardedObservable<SluiceEvent>((subscriber) => subject.subscribe(subscriber)),
    close: () => subject.complete(),
  }
}

/** Any thrown value as an Error. */
export function toError(thrown: unknown): Error {
  try {
    if (thrown instanceof Error) return thrown
  } catch {
    // A proxy that answers no question.
  }
  return new Error(errorText(thrown), { cause: thrown })
}
