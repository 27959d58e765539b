import { filter, type Observable } from 'rxjs'
import { checkKeys } from '../basics/check-keys.ts'
import { type Duration, LONGEST_TIMER_MS, toMs } from '../basics/duration.ts'
import { STOP_MS, within } from '../basics/within.ts'
import type { Demand } from '../demand/demand.ts'
import { expected, stopped } from '../errors.ts'
import type { Work } from '../handle/batch-run.ts'
import { type BatchHandler, checkFunction, type Handler } from '../handle/handler.ts'
import type { Mode } from '../plan/options.ts'
import type { QueueDefinitions } from '../queues.ts'
import { SettledCollector, type SettledMessages } from '../settle/settled-messages.ts'
import type { SettledMessage } from '../settle/settlement.ts'
import { type Report, type SluiceEvent, toError } from '../telemetry/events.ts'

/** What a pipeline needs of the process that it runs in. */
export interface PipelineHost {
  /** Connects if need be, and handles what is due. */
  readonly runOnce: (work: Work, onSettled: (settled: readonly SettledMessage[]) => void) => Promise<void>
  /** Makes its demand, which does not run yet, once the process is connected, or rejects when the signal aborts. */
  readonly awaitDemand: (work: Work, signal: AbortSignal) => Promise<Demand>
  readonly events: Observable<SluiceEvent>
  readonly report: Report
  readonly opened: (subscription: RunningPipeline) => void
  readonly closed: (subscription: RunningPipeline) => void
}

/** A pipeline without its handler. */
export class Pipeline<Payload, Definitions extends QueueDefinitions | undefined, In extends Mode = 'transactional'> {
  /** The name of the queue. */
  readonly queue: string
  readonly #host: PipelineHost

  constructor(queue: string, host: PipelineHost) {
    this.queue = queue
    this.#host = host
  }

  /**
   * Handles messages one by one; see {@link Handler}.
   *
   * @throws SluiceError OPTION_INVALID
   */
  handle(handler: Handler<Payload, Definitions, In>): RunnablePipeline {
    checkFunction('handle', handler)
    // The context and the payload get their types from the queue's definition, which validation has enforced.
    const work = { kind: 'each', handle: handler as (message: unknown, context: unknown) => unknown } as const
    return new RunnablePipeline(this.queue, this.#host, work)
  }

  /**
   * Handles whole batches; see {@link BatchHandler}.
   *
   * @throws SluiceError OPTION_INVALID
   */
  handleBatch(handler: BatchHandler<Payload, Definitions, In>): RunnablePipeline {
    checkFunction('handleBatch', handler)
    const work = { kind: 'batch', handle: handler as (messages: unknown, context: unknown) => unknown } as const
    return new RunnablePipeline(this.queue, this.#host, work)
  }
}

/** A pipeline with its handler. */
export class RunnablePipeline {
  /** The name of the queue. */
  readonly queue: string
  readonly #host: PipelineHost
  readonly #work: Work

  constructor(queue: string, host: PipelineHost, work: Work) {
    this.queue = queue
    this.#host = host
    this.#work = work
  }

  /**
   * Handles everything that is due now, batch after batch in one transaction each, and returns what became of the
   * messages: the first 10,000 in the order in which they were settled, and `counts` of all. For tests and for
   * processes that are started by cron. It closes the connections that it has opened a moment later, so the process can
   * end. When the Sluice stops, it ends with the batch in hand, and returns what is settled by then.
   *
   * @throws SluiceError UNREACHABLE and the like
   */
  async runOnce(): Promise<SettledMessages> {
    const settled = new SettledCollector()
    await this.#host.runOnce(this.#work, (messages) => settled.add(messages))
    return settled.messages
  }

  /**
   * Starts to consume, connecting first if need be: it waits for a database that is down, reporting
   * `connection.failed`. What waiting does not cure (a missing schema, a refused login) rejects
   * {@link RunningPipeline.ended}, which ends the process unless it is handled. Each call is a consumer of its own.
   */
  start(): RunningPipeline {
    return new RunningPipeline(this.queue, this.#host, this.#work)
  }

  /** The same as {@link start}. What it returns can be unsubscribed, with an RxJS Subscription that it is added to. */
  subscribe(): RunningPipeline {
    return this.start()
  }
}

/** How a drain ended. */
export interface Drained {
  /** Whether all batches in flight were handled; otherwise the rest was stopped and given back. */
  readonly completed: boolean
}

/** How long a drain waits by default. */
export const DRAIN_TIMEOUT_MS = 30_000

const REMEDY_FOR_STOP = 'drain({ timeout }) waits for the batches in flight, and stop() does not'

/** A running consumer. */
export class RunningPipeline implements AsyncDisposable {
  /** The name of the queue. */
  readonly queue: string
  /** What happens in the pipelines of this queue in this process. */
  readonly events: Observable<SluiceEvent>
  /**
   * Resolves when the pipeline has ended. Rejects if it cannot start and another attempt would not help: SCHEMA_MISSING
   * and the like, and UNREACHABLE for a login, a database or a certificate that is refused. A database that is down is
   * waited for, at the start and later.
   */
  readonly ended: Promise<void>
  readonly #host: PipelineHost
  readonly #demand: Promise<Demand>
  readonly #ended = Promise.withResolvers<void>()
  /** Aborts when the pipeline need not start any more. */
  readonly #leaving = new AbortController()
  #ending: Promise<void> | undefined

  constructor(queue: string, host: PipelineHost, work: Work) {
    this.queue = queue
    this.#host = host
    this.events = host.events.pipe(filter((event) => 'queue' in event && event.queue === queue))
    host.opened(this)
    this.ended = this.#ended.promise
    this.#demand = host.awaitDemand(work, this.#leaving.signal)
    this.#demand.then(
      (demand) => {
        if (this.#leaving.signal.aborted) return
        demand.start()
        host.report({ kind: 'pipeline.started', queue })
      },
      (error: unknown) => this.#end(this.#leaving.signal.aborted ? undefined : toError(error)),
    )
  }

  /** Looks for messages now: for tests and for the impatient. */
  poke(): void {
    void this.#demand.then((demand) => demand.wake('poke')).catch(() => undefined)
  }

  /**
   * Claims no more, lets the batches in flight end and commits: handlers of a claimed batch that wait for their turn still
   * begin. After the timeout the rest is stopped.
   *
   * @param options.timeout how long to wait for the batches. @default '30s'
   */
  async drain(options: { readonly timeout?: Duration | undefined } = {}): Promise<Drained> {
    checkKeys('drain', options, ['timeout'], "As in drain({ timeout: '30s' })")
    const timeoutMs = toMs(options.timeout ?? DRAIN_TIMEOUT_MS, 'drain.timeout')
    this.#leave()
    const drained = this.#endBy((demand) => demand.drain())
    const timer = Promise.withResolvers<'late'>()
    const timeout = setTimeout(() => timer.resolve('late'), Math.min(timeoutMs, LONGEST_TIMER_MS))
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
  async stop(none?: undefined): Promise<void> {
    if (none !== undefined) throw expected('OPTION_INVALID', 'stop', 'no arguments', none, REMEDY_FOR_STOP)
    this.#leave()
    // Demand has its own limit, which a second stop would wait for again.
    await within(STOP_MS + 1_500, this.#stopDemand(), () => undefined)
  }

  async #stopDemand(): Promise<void> {
    const demand = await this.#demand.catch(() => undefined)
    await demand?.stop()
    await this.#endBy(async () => undefined)
  }

  #leave(): void {
    this.#leaving.abort(stopped('pipeline before it had started'))
  }

  /** As {@link stop}, without waiting for it. */
  unsubscribe(): void {
    void this.stop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain()
  }

  #endBy(how: (demand: Demand) => Promise<void>): Promise<void> {
    this.#ending ??= this.#demand.then(how).then(
      () => this.#end(undefined),
      () => undefined,
    )
    return this.#ending
  }

  #end(error: Error | undefined): void {
    this.#host.closed(this)
    this.#host.report({ kind: 'pipeline.stopped', queue: this.queue, ...(error === undefined ? {} : { error }) })
    if (error === undefined) this.#ended.resolve()
    else this.#ended.reject(error)
  }
}
