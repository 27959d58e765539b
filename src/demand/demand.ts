import { setMaxListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { STOP_MS, within } from '../basics/within.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Settings } from '../settings/settings.ts'
import type { QueuePause } from '../table/settings/queue-settings.ts'
import type { Report } from '../telemetry/events.ts'
import type { DemandSleepers } from '../wake-up/sleepers.ts'
import type { Waiter, WakeReason } from '../wake-up/waiting-queue.ts'
import { DueTimes } from './due-times.ts'
import { Hints } from './hints.ts'
import { Pauses } from './pauses.ts'
import type { FoundMessages, Round } from './round.ts'
import { type RunnerDemand, Runners } from './runner.ts'

/**
 * The demand of a pipeline, as in GenStage: it has one runner per batch that may be in flight, and claims nothing
 * without a free one. A runner sleeps if its round finds nothing, and when all of them sleep, the demand sleeps with
 * the sleepers. While it is paused, all runners sleep, and a hint wakes none.
 */
export class Demand implements Waiter, RunnerDemand {
  readonly queue: string
  readonly #round: Round
  readonly #sleepers: DemandSleepers
  readonly #report: Report
  readonly #stop = new AbortController()
  readonly #drain = new AbortController()
  readonly #hints = new Hints()
  readonly #pauses: Pauses
  readonly #runners: Runners
  /** A poke: no claim has given these times. */
  readonly #dueTimes = new DueTimes(() => this.wake('poke'))
  readonly #ended = Promise.withResolvers<void>()
  #running: Promise<unknown> | undefined
  /** It goes on when a round finds nothing. */
  #stays = false
  #stopped: Promise<void> | undefined
  #concurrency: number
  #most = Number.POSITIVE_INFINITY

  /** @param settings the settings of queues, which may be paused */
  constructor(
    plan: Pick<PipelinePlan, 'queue' | 'concurrency' | 'throttleMs'>,
    round: Round,
    sleepers: DemandSleepers,
    report: Report,
    settings?: Settings,
  ) {
    const { queue, concurrency, throttleMs } = plan
    this.queue = queue
    this.#concurrency = concurrency
    this.#round = round
    this.#sleepers = sleepers
    this.#report = report
    const onPaused = (by: QueuePause | null) => this.#onPaused(by)
    this.#pauses = new Pauses({ queue, settings, onPaused, onResumed: () => this.#onResumed() })
    this.#runners = new Runners(round, this, this.#hints, round.resize(concurrency), throttleMs)
    setMaxListeners(0, this.#stop.signal, this.#drain.signal)
  }

  get connections(): number {
    return this.#round.connections
  }

  get draining(): AbortSignal {
    return this.#drain.signal
  }

  get stopping(): AbortSignal {
    return this.#stop.signal
  }

  /** Nothing is claimed now: its queue is paused, or this pipeline is. */
  get paused(): boolean {
    return this.#pauses.paused
  }

  get hints(): number {
    return this.#hints.count
  }

  /** Claims no more, in this process, until {@link resume}. Messages in flight go on. */
  pause(): void {
    this.#pauses.pauseHere()
  }

  resume(): void {
    this.#pauses.resumeHere()
  }

  get isLast(): boolean {
    return this.draining.aborted || this.paused || this.#runners.isLast
  }

  /** Resolves when all that it has claimed is over, or when it ends without having run. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  start(): void {
    this.#stays = true
    this.#sleepers.attach(this)
    this.#pauses.start()
    this.#hints.checkAgain('poke')
    this.#runners.start(true)
    this.#running = this.#untilOver().finally(this.#ended.resolve)
  }

  /**
   * Changes how many batches, or messages, may be in flight. More: at once. Fewer: nothing is claimed until enough of
   * those in flight have ended.
   */
  setConcurrency(concurrency: number): void {
    this.#concurrency = concurrency
    this.#resize()
  }

  /** No more batches than this are in flight, whatever the concurrency is. */
  limit(batches: number): void {
    this.#most = batches
    this.#resize()
  }

  #resize(): void {
    this.#runners.want(this.#round.resize(Math.min(this.#concurrency, this.#most)))
    if (!this.#stays || this.draining.aborted) return
    this.#hints.wakeSome(this.#runners.surplus)
    // If one sleeps there is nothing to claim, or another claims and wakes it.
    this.#runners.start(!this.#hints.sleeping)
  }

  /** Instead of `start`: runs rounds in one runner, until one finds nothing or the demand ends. */
  runOnce(): Promise<void> {
    const run = this.#runners.runOnce().finally(this.#ended.resolve)
    this.#running = run.catch(() => undefined)
    return run
  }

  /** A hint that there may be messages. */
  wake(reason: WakeReason): void {
    if (reason === 'reconnect') this.#runners.serverIsBack()
    if (this.paused) this.#hints.checkAgain(reason)
    else this.#hints.wake(reason)
  }

  /** A hint that comes while it is awake. */
  checkAgain(reason: WakeReason): void {
    if (reason === 'reconnect') this.#runners.serverIsBack()
    this.#hints.checkAgain(reason)
  }

  /** Claims no more, and resolves when all messages in flight are settled. */
  async drain(): Promise<void> {
    this.#drain.abort()
    this.#pauses.stop()
    this.#dueTimes.clear()
    this.#sleepers.detach(this)
    this.#hints.wakeAll()
    if (this.#running === undefined) this.#ended.resolve()
    await this.#running
  }

  /**
   * Aborts the handlers' signals, gives back unfinished messages, and resolves when all is over, {@link STOP_MS} later
   * at the latest. Statements without an answer by then are cut off: a COMMIT may then have taken effect or not, as
   * after a kill. Called again, it waits for the same end.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stopNow()
    return this.#stopped
  }

  async #stopNow(): Promise<void> {
    this.#drain.abort()
    // A handler that has just ended, or a delivery that has just been settled, counts: let the promises between run.
    await setImmediate()
    this.#stop.abort()
    await within(STOP_MS, this.drain(), () => this.#round.cut())
  }

  sent(): void {
    this.#hints.sent()
  }

  answered(): void {
    this.#hints.answered()
  }

  opened(): void {
    this.wake('poke')
  }

  due(inMs: readonly number[]): void {
    if (this.#stays && !this.draining.aborted) for (const ms of inMs) this.#dueTimes.add(ms)
  }

  found({ full, youngestMs }: FoundMessages): void {
    this.#hints.found()
    this.#sleepers.found(this.queue, youngestMs)
    if (!this.#hints.sleeping) this.#sleepers.awake(this)
    else if (full || this.#hints.again) this.#hints.wakeOne()
    else this.asleep(null)
  }

  asleep(nextDueMs: number | null): void {
    if (this.#stays && !this.paused) this.#sleepers.asleep(this, nextDueMs)
  }

  awake(): void {
    this.#sleepers.awake(this)
  }

  async #untilOver(): Promise<void> {
    await this.#runners.ended()
    await this.#round.drained()
  }

  #onPaused(by: QueuePause | null): void {
    this.awake()
    this.#report({
      kind: 'pipeline.paused',
      queue: this.queue,
      by: by?.by ?? null,
      reason: by?.reason ?? null,
    })
  }

  #onResumed(): void {
    this.#report({ kind: 'pipeline.resumed', queue: this.queue })
    this.#hints.wake('poke')
  }
}
