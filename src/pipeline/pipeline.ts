import { filter, type Observable } from 'rxjs'
import { checkKeys } from '../config.ts'
import { STOP_MS, within } from '../connection/within.ts'
import { type Duration, toMs } from '../duration.ts'
import type { QueueDefinitions } from '../queues.ts'
import { type Report, type SluiceEvent, toError } from '../telemetry.ts'
import type { Work } from './batch-run.ts'
import type { BatchHandler, Handler } from './handler.ts'
import type { Producer } from './producer.ts'
import type { SettledMessage } from './settlement.ts'

/** What a pipeline needs of the process that it runs in. */
export interface PipelineHost {
  /** Connects if need be, and makes the producer, which does not run yet. */
  readonly createProducer: (work: Work, onSettled?: (settled: readonly SettledMessage[]) => void) => Promise<Producer>
  readonly events: Observable<SluiceEvent>
  readonly report: Report
  readonly opened: (subscription: PipelineSubscription) => void
  readonly closed: (subscription: PipelineSubscription) => void
}

/** A pipeline without its handler. */
export class Pipeline<Payload, Definitions extends QueueDefinitions | undefined> {
  readonly queue: string
  readonly #host: PipelineHost

  constructor(queue: string, host: PipelineHost) {
    this.queue = queue
    this.#host = host
  }

  /** Handles messages one by one; see {@link Handler}. */
  handle(handler: Handler<Payload, Definitions>): RunnablePipeline {
    // The context and the payload get their types from the queue's definition, which validation has enforced.
    const work = { kind: 'each', handle: handler as (message: unknown, context: unknown) => unknown } as const
    return new RunnablePipeline(this.queue, this.#host, work)
  }

  /** Handles whole batches; see {@link BatchHandler}. */
  handleBatch(handler: BatchHandler<Payload, Definitions>): RunnablePipeline {
    const work = { kind: 'batch', handle: handler as (messages: unknown, context: unknown) => unknown } as const
    return new RunnablePipeline(this.queue, this.#host, work)
  }
}

/** A pipeline with its handler. */
export class RunnablePipeline {
  readonly queue: string
  readonly #host: PipelineHost
  readonly #work: Work

  constructor(queue: string, host: PipelineHost, work: Work) {
    this.queue = queue
    this.#host = host
    this.#work = work
  }

  /**
   * Handles everything that is due now, batch after batch in one transaction each, and returns what became of each
   * message, in the order in which they were settled. For tests and for processes that are started by a clock.
   *
   * @throws SluiceError UNREACHABLE and the like
   */
  async runOnce(): Promise<readonly SettledMessage[]> {
    const settled: SettledMessage[] = []
    const producer = await this.#host.createProducer(this.#work, (messages) => settled.push(...messages))
    await producer.runOnce()
    return settled
  }

  /** Starts to consume, connecting first if need be. Each call is a consumer of its own. */
  subscribe(): PipelineSubscription {
    return new PipelineSubscription(this.queue, this.#host, this.#work)
  }
}

/** How a drain ended. */
export interface Drained {
  /** Whether all that was in flight was handled; otherwise the rest was stopped and given back. */
  readonly completed: boolean
}

/** How long a drain waits by default. */
export const DRAIN_TIMEOUT_MS = 30_000

/** A running consumer. */
export class PipelineSubscription implements AsyncDisposable {
  readonly queue: string
  /** What happens in the pipelines of this queue in this process. */
  readonly events: Observable<SluiceEvent>
  /**
   * Resolves when the pipeline has ended. Rejects if it cannot start: UNREACHABLE, SCHEMA_MISSING and the like. Once
   * started it never rejects: a lost database is waited for.
   */
  readonly closed: Promise<void>
  readonly #host: PipelineHost
  readonly #producer: Promise<Producer>
  readonly #ended = Promise.withResolvers<void>()
  #ending: Promise<void> | undefined
  #stopped = false

  constructor(queue: string, host: PipelineHost, work: Work) {
    this.queue = queue
    this.#host = host
    this.events = host.events.pipe(filter((event) => 'queue' in event && event.queue === queue))
    host.opened(this)
    this.closed = this.#ended.promise
    this.#producer = host.createProducer(work)
    this.#producer.then(
      (producer) => {
        if (this.#stopped) return
        producer.start()
        host.report({ kind: 'pipeline.started', queue })
      },
      (error: unknown) => this.#end(toError(error)),
    )
  }

  /** Looks for messages now: for tests and for the impatient. */
  poke(): void {
    void this.#producer.then((producer) => producer.wake('poke')).catch(() => undefined)
  }

  /**
   * Claims no more, lets the handlers in flight end and commits. After the timeout the rest is stopped.
   *
   * @param options.timeoutMs milliseconds, or a text such as '1m'. @default 30000
   */
  async drain(options: { readonly timeoutMs?: Duration } = {}): Promise<Drained> {
    checkKeys('drain', options, ['timeoutMs'])
    const timeoutMs = toMs(options.timeoutMs ?? DRAIN_TIMEOUT_MS, 'drain.timeoutMs')
    const drained = this.#endBy((producer) => producer.drain())
    const timer = Promise.withResolvers<'late'>()
    const timeout = setTimeout(() => timer.resolve('late'), Math.min(timeoutMs, 2_000_000_000))
    const first = await Promise.race([drained, timer.promise])
    clearTimeout(timeout)
    if (first !== 'late') return { completed: true }
    await this.stop()
    return { completed: false }
  }

  /**
   * Claims no more, aborts the handlers' signals, and gives back what is not done. Ends within seconds, whatever the
   * server does; a pipeline that still waits for its first connection is not started any more.
   */
  async stop(): Promise<void> {
    this.#stopped = true
    // A producer has its own limit; what takes longer is the connection without which there is none.
    await within(STOP_MS + 1_500, this.#stopProducer(), () => undefined)
  }

  async #stopProducer(): Promise<void> {
    const producer = await this.#producer.catch(() => undefined)
    await producer?.stop()
    await this.#endBy((stopped) => stopped.stop())
  }

  /** As {@link stop}, without waiting for it. */
  unsubscribe(): void {
    void this.stop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain()
  }

  #endBy(how: (producer: Producer) => Promise<void>): Promise<void> {
    this.#ending ??= this.#producer.then(how).then(
      () => this.#end(undefined),
      () => undefined,
    )
    return this.#ending
  }

  #end(error: Error | undefined): void {
    this.#host.closed(this)
    this.#host.report({ kind: 'pipeline.stopped', queue: this.queue })
    if (error === undefined) this.#ended.resolve()
    else this.#ended.reject(error)
  }
}
