import { filter, type Observable } from 'rxjs'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { integerWithin } from '../basics/checks/options.ts'
import { type Duration, toMs } from '../basics/time/duration.ts'
import { pause } from '../basics/time/pause.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import { STOP_MS, within } from '../basics/time/within.ts'
import type { Demand } from '../demand/demand.ts'
import { expected, stopped, toError } from '../errors.ts'
import { metersInside, noteEndRead, waitForHandlers } from '../handle/inside.ts'
import type { PipelinePlan } from '../plan/options.ts'
import { MODES } from '../plan/resolve.ts'
import type { Share } from '../process/connection-plan.ts'
import type { Consumers } from '../process/consumers.ts'
import { Meter, type QueueStatistics } from '../statistics/meter.ts'
import type { SluiceEvent } from '../telemetry/events.ts'
import type { Handling } from './handling.ts'
import { onErrorOf } from './on-error.ts'

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
  /** The name of the queue; of a group, which reads a stream, `<stream>:<group>`. Its events bear this name. */
  readonly queue: string
  /** What happens in the pipelines of this queue in this process. */
  readonly events: Observable<SluiceEvent>
  readonly #plan: PipelinePlan
  readonly #consumers: Consumers
  readonly #demand: Promise<Demand>
  /** Of the connections of the process. */
  readonly #share: Share
  readonly #ended = Promise.withResolvers<void>()
  /** Aborts when the pipeline need not start any more. */
  readonly #leaving = new AbortController()
  readonly #meter = new Meter()
  #concurrency: number
  #ending: Promise<void> | undefined
  #started: Demand | undefined
  /** Why `onError` has stopped it. */
  #stoppedBy: Error | undefined
  /** Whether {@link pause} was called last, also before it has its demand. */
  #paused = false

  constructor(plan: PipelinePlan, handling: Handling, consumers: Consumers, delayMs = 0) {
    const { queue, mode, batchSize, destination } = plan
    this.queue = queue
    this.#plan = plan
    this.#consumers = consumers
    this.#share = consumers.join(plan)
    this.events = consumers.events.pipe(filter((event) => 'queue' in event && event.queue === queue))
    consumers.opened(this, this.#meter)
    this.#concurrency = plan.concurrency
    this.#demand = this.#awaitDemand(handling, delayMs)
    this.#demand.then(
      (demand) => {
        if (this.#leaving.signal.aborted) return
        if (this.#paused) demand.pause()
        demand.setConcurrency(this.#concurrency)
        this.#share.govern((batches) => demand.limit(batches))
        this.#started = demand
        demand.start()
        const relay = destination !== undefined && { destination }
        consumers.report({ kind: 'pipeline.started', queue, ...relay, mode, concurrency: this.#concurrency, batchSize })
      },
      (error: unknown) => this.#end(this.#leaving.signal.aborted ? undefined : toError(error)),
    )
  }

  /** How much may be in flight: batches in transactional mode, messages in leased mode. */
  get concurrency(): number {
    return this.#concurrency
  }

  /**
   * Resolves when the pipeline has ended. Rejects if it cannot start and another attempt would not help: SCHEMA_MISSING
   * and the like, and UNREACHABLE for a login, a database or a certificate that is refused. A database that is down is
   * waited for, at the start and later.
   *
   * A handler of the pipeline that awaits it waits until its time is up, because the pipeline ends after its handlers. From Node 24
   * on the timeout says so.
   */
  get ended(): Promise<void> {
    noteEndRead(this.#meter)
    return this.#ended.promise
  }

  /**
   * Changes it while the pipeline runs. More runners claim at once. With fewer, what is in flight ends, and so does a claim
   * that has been sent; nothing more is claimed until there is room. `batchSize` stays as it is.
   *
   * @param concurrency 1 to 1,000 in transactional mode, 1 to 10,000 in leased mode
   * @throws SluiceError OPTION_INVALID
   *
   * @example running.setConcurrency(isNight() ? 50 : 5)
   */
  setConcurrency(concurrency: number): void {
    const most = MODES[this.#plan.mode].mostConcurrency
    this.#concurrency = integerWithin('setConcurrency', concurrency, 1, most)
    this.#share.want(this.#concurrency)
    void this.#demand.then((demand) => demand.setConcurrency(this.#concurrency)).catch(() => undefined)
  }

  /** Reports what it has done: counts since its start, and durations of the last five to ten minutes. */
  statistics(): QueueStatistics {
    return Meter.sum([this.#meter])
  }

  /** Looks for messages now: for tests and for the impatient. */
  poke(): void {
    void this.#demand.then((demand) => demand.wake('poke')).catch(() => undefined)
  }

  /** Whether {@link pause} was called, and {@link resume} not since. A queue that is paused is not counted. */
  get paused(): boolean {
    return this.#paused
  }

  /**
   * Stops claiming until {@link resume}; messages in flight are still handled. Pipelines of other processes continue.
   * To pause the queue for all of them, call `sluice.operate.queues.pause(queue)`. It may be called before the pipeline
   * is connected, and again. Reports `pipeline.paused`.
   */
  pause(): void {
    this.#setPaused(true)
  }

  /** Claims again, unless the queue is paused for all. Reports `pipeline.resumed`. */
  resume(): void {
    this.#setPaused(false)
  }

  #setPaused(paused: boolean): void {
    this.#paused = paused
    void this.#demand.then((demand) => (this.#paused ? demand.pause() : demand.resume())).catch(() => undefined)
  }

  /**
   * Claims no more, lets the batches in flight end and commits: handlers of a claimed batch that wait for their turn still
   * begin. After the timeout the rest is stopped. A handler of this pipeline may call it, and may not await it.
   *
   * @param options.timeout how long to wait for the batches. @default '30s'
   * @throws SluiceError OPTION_INVALID; from Node 24 on IN_HANDLER if a handler of this pipeline awaits it (before, it waits
   *   for the timeout)
   */
  drain(options: { readonly timeout?: Duration | undefined } = {}): Promise<Drained> {
    return waitForHandlers('drain()', this.#isInHandler, () => this.#drain(options))
  }

  get #isInHandler(): boolean {
    return metersInside().includes(this.#meter)
  }

  async #drain(options: { readonly timeout?: Duration | undefined }): Promise<Drained> {
    checkKeys('drain', options, ['timeout'], "As in drain({ timeout: '30s' })")
    const timeoutMs = toMs(options.timeout ?? DRAIN_TIMEOUT_MS, 'drain.timeout')
    this.#leave()
    const drained = this.#endBy((demand) => demand.drain())
    const timer = Promise.withResolvers<'late'>()
    const timeout = startTimer(() => timer.resolve('late'), timeoutMs)
    const first = await Promise.race([drained, timer.promise])
    clearTimeout(timeout)
    if (first !== 'late') return { completed: true }
    await this.#stop(undefined)
    return { completed: false }
  }

  /**
   * Claims no more, aborts the handlers' signals, and gives back what is not done. Ends within seconds, whatever the
   * server does; a pipeline that still waits for its first connection is not started any more. A handler of this pipeline
   * may call it, and may not await it.
   *
   * @throws SluiceError OPTION_INVALID; from Node 24 on IN_HANDLER if a handler of this pipeline awaits it (before, it waits
   *   until the handler is given up, seconds later)
   */
  stop(none?: undefined): Promise<void> {
    return waitForHandlers('stop()', this.#isInHandler, () => this.#stop(none))
  }

  async #stop(none: undefined): Promise<void> {
    if (none !== undefined) throw expected('OPTION_INVALID', 'stop', 'no arguments', none, REMEDY_FOR_STOP)
    this.#leave()
    // Demand has its own limit, which a second stop would wait for again.
    await within(STOP_MS + 1_500, this.#stopDemand(), () => undefined)
  }

  async #awaitDemand(handling: Handling, delayMs: number): Promise<Demand> {
    const { signal } = this.#leaving
    if (delayMs > 0) await pause(delayMs, signal)
    signal.throwIfAborted()
    const [plan, meter] = [this.#plan, this.#meter]
    const stop = (error: unknown) => {
      this.#stoppedBy ??= toError(error)
      this.#leave()
      void this.#endBy((demand) => demand.drain())
      // At once: no claim is to leave together with the COMMIT of this message.
      void this.#started?.drain()
    }
    const pauseHere = () => {
      this.#paused = true
      this.#started?.pause()
    }
    const onFailed = onErrorOf(plan, this.#consumers.report, { pause: pauseHere, stop })
    return this.#consumers.demand({ plan, ...handling, meter, onFailed }, signal)
  }

  async #stopDemand(): Promise<void> {
    const demand = await this.#demand.catch(() => undefined)
    await demand?.stop()
    await this.#endBy(async () => undefined)
  }

  #leave(): void {
    this.#consumers.leaves(this)
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
    this.#consumers.closed(this, error !== undefined)
    this.#share.leave()
    const because = error ?? this.#stoppedBy
    const by = error === undefined && because !== undefined ? ({ by: 'onError' } as const) : {}
    this.#consumers.report({ kind: 'pipeline.stopped', queue: this.queue, ...(because && { error: because }), ...by })
    if (error === undefined) this.#ended.resolve()
    else this.#ended.reject(error)
  }
}
