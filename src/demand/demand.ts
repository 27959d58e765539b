import { setMaxListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { Backoff } from '../basics/backoff.ts'
import { pause } from '../basics/pause.ts'
import { STOP_MS, within } from '../basics/within.ts'
import { isSluiceError } from '../errors.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Settings } from '../settings/settings.ts'
import type { QueuePause } from '../table/settings/queue-settings.ts'
import type { Report } from '../telemetry/events.ts'
import type { Parking } from '../wake-up/scheduler.ts'
import type { Waiter, WakeReason } from '../wake-up/waiting-queue.ts'
import { DueTimes } from './due-times.ts'
import { Hints } from './hints.ts'
import { Pauses } from './pauses.ts'
import { Places } from './places.ts'
import type { Found, Ran, Round, RoundDemand } from './round.ts'
import { Throttle } from './throttle.ts'

export interface DemandOptions {
  readonly plan: Pick<PipelinePlan, 'queue' | 'concurrency' | 'throttleMs'>
  readonly round: Round
  readonly scheduler: Parking
  /** The settings of queues. */
  readonly settings?: Settings | undefined
  readonly report: Report
}

/**
 * The demand of a pipeline, as in GenStage: it has one place per batch that may be in flight, and nothing is claimed
 * without a free one. Each place runs one round after another. A place whose round finds nothing sleeps, and the last one
 * to do so parks the queue with the scheduler. While it is paused, all places sleep and nothing is parked.
 */
export class Demand implements Waiter, RoundDemand {
  readonly queue: string
  readonly #options: DemandOptions
  readonly #stop = new AbortController()
  readonly #drain = new AbortController()
  #back = new AbortController()
  readonly #hints = new Hints()
  readonly #pauses: Pauses
  readonly #throttle: Throttle | undefined
  readonly #places: Places
  readonly #dueTimes = new DueTimes(() => this.wake('due'))
  readonly #ended = Promise.withResolvers<void>()
  #running: Promise<unknown> | undefined
  /** It goes on when a round finds nothing. */
  #stays = false
  #stopped: Promise<void> | undefined

  constructor(options: DemandOptions) {
    const { plan, round, settings } = options
    const { queue, concurrency, throttleMs } = plan
    this.queue = queue
    this.#options = options
    const onPaused = (by: QueuePause | null) => this.#paused(by)
    this.#pauses = new Pauses({ queue, settings, onPaused, onResumed: () => this.#resumed() })
    this.#places = new Places(round.resize(concurrency))
    if (throttleMs !== undefined) this.#throttle = new Throttle(throttleMs)
    setMaxListeners(0, this.#stop.signal, this.#drain.signal)
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

  /** Claims no more, in this process, until {@link resume}. What is in hand goes on. */
  pause(): void {
    this.#pauses.pauseHere()
  }

  resume(): void {
    this.#pauses.resumeHere()
  }

  get isLast(): boolean {
    return this.#claimsNoMore || this.#throttle !== undefined || this.#places.isSurplus
  }

  /** Resolves when all that it has claimed is over, or when it ends without having run. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  start(): void {
    this.#stays = true
    this.#options.scheduler.attach(this)
    this.#pauses.start()
    this.#hints.checkAgain()
    this.#openPlaces(true)
    this.#running = this.#untilOver().finally(this.#ended.resolve)
  }

  /**
   * Changes how many batches, or messages, may be in flight. More: at once. Fewer: what is in flight ends, and nothing is
   * claimed until there is room.
   */
  setConcurrency(concurrency: number): void {
    this.#places.want(this.#options.round.resize(concurrency))
    if (!this.#stays || this.draining.aborted) return
    this.#hints.wakeSome(this.#places.surplus)
    // If one sleeps there is nothing to claim, or another claims and wakes it.
    this.#openPlaces(!this.#hints.sleeping)
  }

  /** Instead of `start`: runs rounds in one place, until one finds nothing or it is told to end. */
  runOnce(): Promise<void> {
    const run = this.#untilNothing().finally(this.#ended.resolve)
    this.#running = run.catch(() => undefined)
    return run
  }

  /** A hint that there may be something. */
  wake(reason: WakeReason): void {
    if (reason === 'reconnect') this.#serverIsBack()
    if (this.paused) this.#hints.checkAgain()
    else this.#hints.wake(reason)
  }

  /** A hint that comes while it is not parked. */
  checkAgain(reason: WakeReason): void {
    if (reason === 'reconnect') this.#serverIsBack()
    this.#hints.checkAgain()
  }

  #paused(by: QueuePause | null): void {
    const { report, scheduler } = this.#options
    scheduler.unpark(this)
    report({ kind: 'pipeline.paused', queue: this.queue, by: by?.by ?? null, reason: by?.reason ?? null })
  }

  #resumed(): void {
    this.#options.report({ kind: 'pipeline.resumed', queue: this.queue })
    this.#hints.wake('poke')
  }

  /** Ends the backoff of places whose round failed. */
  #serverIsBack(): void {
    this.#back.abort()
    this.#back = new AbortController()
  }

  /** Claims no more, and resolves when all that is in flight is settled. */
  async drain(): Promise<void> {
    this.#drain.abort()
    this.#pauses.stop()
    this.#dueTimes.clear()
    this.#options.scheduler.detach(this)
    this.#hints.wakeAll()
    if (this.#running === undefined) this.#ended.resolve()
    await this.#running
  }

  /**
   * Aborts the handlers' signals, gives back what is not done, and resolves when all is over, {@link STOP_MS} later at the
   * latest. What the server has not answered by then is cut off: a COMMIT may then have taken effect or not, as after a
   * kill. Called again, it waits for the same end.
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
    await within(STOP_MS, this.drain(), () => this.#options.round.cut())
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

  found({ full, youngestMs }: Found): void {
    const { scheduler } = this.#options
    this.#hints.found()
    scheduler.found(this.queue, youngestMs)
    if (!this.#hints.sleeping) scheduler.unpark(this)
    else if (full || this.#hints.again) this.#hints.wakeOne()
    else this.#park(null)
  }

  async #untilNothing(): Promise<void> {
    const { round } = this.#options
    try {
      do {
        for (let next: Next = 'claim'; next !== 'sleep' && !this.#claimsNoMore; ) {
          await this.#throttle?.turn(this.draining, () => true)
          if (!this.draining.aborted) next = await this.#run(next, () => undefined)
        }
      } while ((await round.settled()) && !this.#claimsNoMore)
    } catch (error) {
      // What earlier claims have taken is still in hand.
      await round.settled()
      if (this.#isOurStop(error)) return
      throw round.failed(error)
    }
  }

  /** As many as are wanted and not there. @param claims the first of them claims at once, the others sleep */
  #openPlaces(claims: boolean): void {
    let first = claims
    this.#places.open(() => {
      const place = this.#place(first)
      first = false
      return place
    })
  }

  async #untilOver(): Promise<void> {
    await this.#places.ended()
    await this.#options.round.settled()
  }

  async #place(first: boolean): Promise<void> {
    const backoff = new Backoff(100, 10_000)
    let next: Next = first ? 'claim' : 'sleep'
    while (!this.draining.aborted) {
      if (next === 'sleep' || this.paused) await this.#hints.sleep()
      if (this.paused && !this.#places.isSurplus) continue
      if (this.#throttle !== undefined) await this.#throttle.turn(this.draining, () => !this.#places.isSurplus)
      if (this.draining.aborted) return
      if (this.#places.isSurplus) return this.#leave()
      next = await this.#runPatiently(next, backoff)
    }
  }

  /** Runs a round, and waits after one that failed. */
  async #runPatiently(how: Next, backoff: Backoff): Promise<Next> {
    try {
      const next = await this.#run(how, () => backoff.reset())
      backoff.reset()
      return next
    } catch (error) {
      if (!this.#isOurStop(error)) await this.#failed(error, backoff.next())
      return 'claim'
    }
  }

  async #failed(error: unknown, retryInMs: number): Promise<void> {
    this.#options.round.failed(error, retryInMs)
    // It was perhaps the one that was woken: another place that sleeps hears of the next message meanwhile.
    if (this.#hints.sleeping && !this.#hints.claiming && !this.draining.aborted) this.#park(null)
    await pause(retryInMs, AbortSignal.any([this.draining, this.#back.signal]))
  }

  /** A place ends. What it was woken for is left to another. */
  #leave(): void {
    this.#places.leave()
    if (this.#hints.sleeping) this.#hints.wake('poke')
    else this.#options.scheduler.unpark(this)
  }

  async #run(how: Next, onCommitted: () => void): Promise<Next> {
    const ran = await this.#options.round.run(this, { alone: how === 'claim alone', onCommitted })
    if (ran.kind === 'nothing') return this.#foundNothing(ran)
    return NEXT[ran.kind]
  }

  #foundNothing({ nextDueMs, partial }: Extract<Ran, { kind: 'nothing' }>): Next {
    // While it is paused its place sleeps all the same; but it may be resumed before the place does.
    if (this.#hints.again || partial || this.paused) return 'claim'
    this.#hints.foundNothing()
    if (!this.#hints.claiming && !this.draining.aborted) this.#park(nextDueMs)
    return 'sleep'
  }

  #park(nextDueMs: number | null): void {
    if (this.#stays && !this.paused) this.#options.scheduler.park(this, nextDueMs)
  }

  /** It ends, or it is paused. */
  get #claimsNoMore(): boolean {
    return this.draining.aborted || this.paused
  }

  #isOurStop(error: unknown): boolean {
    return this.stopping.aborted && isSluiceError(error, 'STOPPED')
  }
}

/** What a place does next. Alone: while the process has nothing else in flight. */
type Next = 'sleep' | 'claim' | 'claim alone'

/** After a round that was told to end the place ends, or sleeps while it is paused. */
const NEXT = { more: 'claim', alone: 'claim alone', ended: 'claim' } as const
