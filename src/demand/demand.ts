import { setMaxListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { Backoff } from '../basics/backoff.ts'
import { pause } from '../basics/pause.ts'
import { STOP_MS, within } from '../basics/within.ts'
import { isSluiceError } from '../errors.ts'
import type { Scheduler, Waiter, WakeReason } from '../wake-up/scheduler.ts'
import { Hints } from './hints.ts'
import type { Found, Ran, Round, RoundDemand } from './round.ts'

export interface DemandOptions {
  readonly queue: string
  /** How many places there are. */
  readonly concurrency: number
  readonly scheduler: Scheduler
  readonly round: Round
  readonly onEnded?: (() => void) | undefined
}

/**
 * The demand of a pipeline, as in GenStage: it has one place per batch that may be in flight, and nothing is claimed
 * without a free one. Each place runs one round after another. A place whose round finds nothing sleeps, and the last one
 * to do so parks the queue with the scheduler.
 */
export class Demand implements Waiter, RoundDemand {
  readonly queue: string
  readonly #options: DemandOptions
  readonly #stop = new AbortController()
  readonly #drain = new AbortController()
  #back = new AbortController()
  readonly #hints = new Hints()
  #running: Promise<unknown> | undefined
  /** It goes on when a round finds nothing. */
  #stays = false
  #stopped: Promise<void> | undefined

  constructor(options: DemandOptions) {
    this.queue = options.queue
    this.#options = options
    setMaxListeners(0, this.#stop.signal, this.#drain.signal)
  }

  get draining(): AbortSignal {
    return this.#drain.signal
  }

  get stopping(): AbortSignal {
    return this.#stop.signal
  }

  /** Resolves when one that runs has ended. */
  get ended(): Promise<unknown> {
    return this.#running ?? Promise.resolve()
  }

  start(): void {
    this.#stays = true
    this.#options.scheduler.attach(this)
    this.#hints.checkAgain()
    const places = Array.from({ length: this.#options.concurrency }, (_, at) => this.#place(at === 0))
    this.#running = Promise.all(places)
      .then(() => this.#options.round.settled())
      .finally(this.#options.onEnded)
  }

  /** Instead of `start`: runs rounds in one place, until one finds nothing or it is told to end. */
  runOnce(): Promise<void> {
    const run = this.#untilNothing().finally(this.#options.onEnded)
    this.#running = run.catch(() => undefined)
    return run
  }

  /** A hint that there may be something. */
  wake(reason: WakeReason): void {
    if (reason === 'reconnect') this.#serverIsBack()
    this.#hints.wake(reason)
  }

  /** A hint that comes while it is not parked. */
  checkAgain(reason: WakeReason): void {
    if (reason === 'reconnect') this.#serverIsBack()
    this.#hints.checkAgain()
  }

  /** Ends the backoff of places whose round failed. */
  #serverIsBack(): void {
    this.#back.abort()
    this.#back = new AbortController()
  }

  /** Claims no more, and resolves when all that is in flight is settled. */
  async drain(): Promise<void> {
    this.#drain.abort()
    this.#options.scheduler.detach(this)
    this.#hints.wakeAll()
    if (this.#running === undefined) this.#options.onEnded?.()
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
    this.#hints.wake('poke')
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
        for (let next: Next = 'claim'; next !== 'sleep' && !this.draining.aborted; )
          next = await this.#run(next, () => undefined)
      } while ((await round.settled()) && !this.draining.aborted)
    } catch (error) {
      // What earlier claims have taken is still in hand.
      await round.settled()
      if (this.#isOurStop(error)) return
      throw round.failed(error)
    }
  }

  async #place(first: boolean): Promise<void> {
    const backoff = new Backoff(100, 10_000)
    let next: Next = first ? 'claim' : 'sleep'
    while (!this.draining.aborted) {
      if (next === 'sleep') await this.#hints.sleep()
      if (this.draining.aborted) return
      try {
        next = await this.#run(next, () => backoff.reset())
        backoff.reset()
      } catch (error) {
        if (this.#isOurStop(error)) return
        const retryInMs = backoff.next()
        this.#options.round.failed(error, retryInMs)
        // It was perhaps the one that was woken: another place that sleeps hears of the next message meanwhile.
        if (this.#hints.sleeping && !this.#hints.claiming && !this.draining.aborted) this.#park(null)
        await pause(retryInMs, AbortSignal.any([this.draining, this.#back.signal]))
        next = 'claim'
      }
    }
  }

  async #run(how: Next, onCommitted: () => void): Promise<Next> {
    const ran = await this.#options.round.run(this, { alone: how === 'claim alone', onCommitted })
    if (ran.kind === 'nothing') return this.#foundNothing(ran)
    return NEXT[ran.kind]
  }

  #foundNothing({ nextDueMs, partial }: Extract<Ran, { kind: 'nothing' }>): Next {
    if (this.#hints.again || partial) return 'claim'
    this.#hints.foundNothing()
    if (!this.#hints.claiming && !this.draining.aborted) this.#park(nextDueMs)
    return 'sleep'
  }

  #park(nextDueMs: number | null): void {
    if (this.#stays) this.#options.scheduler.park(this, nextDueMs)
  }

  #isOurStop(error: unknown): boolean {
    return this.stopping.aborted && isSluiceError(error, 'STOPPED')
  }
}

/** What a place does next. Alone: while the process has nothing else in flight. */
type Next = 'sleep' | 'claim' | 'claim alone'

const NEXT = { more: 'claim', alone: 'claim alone', ended: 'sleep' } as const
