/** Of a pipeline, and the queue that it consumes. */
export type PipelineEvent =
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
