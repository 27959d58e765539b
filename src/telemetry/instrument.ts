import type { MeteredClaim } from '../statistics/meter.ts'
import type { TraceContext } from './trace-context.ts'

/**
 * What `sluice/otel` puts into a Sluice to watch what it does. The core knows no tracer. None of its methods may throw,
 * other than what it is given to run.
 */
export interface Instrument {
  /**
   * Runs an enqueue or an append. `run` gets the trace context that goes with the messages, and returns what each came
   * to, an id or an object that has one. It must be called at once, so that statements keep their order.
   */
  send<T>(send: Send, run: (context: TraceContext | undefined) => Promise<T[]>): Promise<T[]>
  /** A handler is about to be called. */
  handle(call: WatchedCall): Watch
  /** A claim has found messages. */
  claimed(queue: string, claim: MeteredClaim): void
}

/** The instrument of a Sluice, if it has one. */
export interface Instruments {
  current: Instrument | undefined
}

/** Messages that are enqueued, or events that are appended, by one call. */
export interface Send {
  readonly kind: 'enqueue' | 'append'
  /** The queue or the stream. */
  readonly to: string
  readonly messages: number
}

/** A call of a handler. */
export interface WatchedCall {
  /** A handler of whole batches may have one message too. */
  readonly kind: 'each' | 'batch'
  readonly queue: string
  readonly messages: readonly WatchedMessage[]
}

export interface WatchedMessage {
  readonly id: string
  readonly type: string | null
  readonly attempt: number
  /** JSON. */
  readonly headers: string
  /** From when it was due until now; undefined: unknown. */
  readonly waitedMs: number | undefined
}

/** Watches one call of a handler. */
export interface Watch {
  /** Calls the handler. */
  run<T>(call: () => T): T
  /** The handler has ended, and this became of its messages. */
  ended(outcomes: readonly { readonly kind: string }[]): void
  /** It has thrown, was late, or returned what is no outcome. */
  failed(error: unknown): void
}
