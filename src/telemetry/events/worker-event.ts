/** Of a worker process, its maintenance, and what else it does beside messages. */
export type WorkerEvent =
  /** The worker process is connected and registered: it is in `sluice.workers`. */
  | { readonly kind: 'worker.started'; readonly workerId: number; readonly name: string }
  /** It has ended its work and is no longer in `sluice.workers`. */
  | { readonly kind: 'worker.stopped'; readonly workerId: number; readonly name: string }
  /** A worker process vanished with messages in flight. */
  | {
      readonly kind: 'worker.crashed'
      readonly workerId: number
      readonly worker: string
      readonly messages: number
    }
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
   * `sluice/otel`: a call of OpenTelemetry's SDK threw. Nothing else failed: spans or metrics are missing. Reported once.
   */
  | { readonly kind: 'telemetry.failed'; readonly error: Error }
