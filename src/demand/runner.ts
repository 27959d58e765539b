import { Backoff } from '../basics/time/backoff.ts'
import { pause } from '../basics/time/pause.ts'
import { isSluiceError } from '../errors.ts'
import type { Hints } from './hints.ts'
import { CLAIM, type Next, type Round, type RoundDemand } from './round.ts'
import { Throttle } from './throttle.ts'

/** The demand, as its runners see it. */
export interface RunnerDemand extends RoundDemand {
  /** No runner claims, and nothing is due before `nextDueMs`. */
  asleep(nextDueMs: number | null): void
  /** A runner that was woken has ended, and none sleeps. */
  awake(): void
}

/**
 * The runners of a demand, one per unit of concurrency. Each runs one round after another: it claims, and when a round finds
 * nothing it sleeps until there is a hint.
 */
export class Runners {
  readonly #round: Round
  readonly #demand: RunnerDemand
  readonly #hints: Hints
  readonly #throttle: Throttle | undefined
  readonly #running = new Set<Promise<void>>()
  #wanted: number
  /** How many run, without those about to leave. */
  #staying = 0
  #back = new AbortController()

  /** @param throttleMs the least time between two claims */
  constructor(round: Round, demand: RunnerDemand, hints: Hints, wanted: number, throttleMs: number | undefined) {
    this.#round = round
    this.#demand = demand
    this.#hints = hints
    this.#wanted = wanted
    if (throttleMs !== undefined) this.#throttle = new Throttle(throttleMs)
  }

  want(wanted: number): void {
    this.#wanted = wanted
  }

  get wanted(): number {
    return this.#wanted
  }

  /** How many more there are than are wanted. Below zero: how many are missing. */
  get surplus(): number {
    return this.#staying - this.#wanted
  }

  /** Whether a round must end after its present batch. */
  get isLast(): boolean {
    return this.surplus > 0 || this.#throttle !== undefined
  }

  /** Starts the runners that are missing. @param claims the first of them claims at once, the others sleep */
  start(claims: boolean): void {
    for (let first = claims; this.surplus < 0; first = false) {
      this.#staying += 1
      const running: Promise<void> = this.#runUntilEnd(first ? CLAIM : SLEEP).finally(() =>
        this.#running.delete(running),
      )
      this.#running.add(running)
    }
  }

  /** Resolves when none runs or sleeps. */
  async ended(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  /** One runner, until it finds nothing or the demand ends. */
  async runOnce(): Promise<void> {
    const demand = this.#demand
    const isOver = () => demand.draining.aborted || demand.paused
    try {
      do {
        for (let next: Next = CLAIM; next.kind !== 'sleep' && !isOver(); ) {
          await this.#throttle?.turn(demand.draining, () => true)
          if (!demand.draining.aborted) next = await this.#run(next, () => undefined)
        }
      } while ((await this.#round.drained()) && !isOver())
    } catch (error) {
      // Messages of earlier claims are still in flight.
      await this.#round.drained()
      if (this.#isOurStop(error)) return
      throw this.#round.failed(error)
    }
  }

  /** Ends the backoff of runners after a failed round. */
  serverIsBack(): void {
    this.#back.abort()
    this.#back = new AbortController()
  }

  /** The life of a runner. */
  async #runUntilEnd(first: Next): Promise<void> {
    const demand = this.#demand
    const backoff = new Backoff(100, 10_000)
    let next = first
    while (!demand.draining.aborted) {
      if (next.kind === 'sleep' || demand.paused) await this.#hints.sleep()
      if (demand.paused && this.surplus <= 0) continue
      if (this.#throttle !== undefined) await this.#throttle.turn(demand.draining, () => this.surplus <= 0)
      if (demand.draining.aborted) return
      if (this.surplus > 0) return this.#leave()
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
      return CLAIM
    }
  }

  async #run(how: Next, onCommitted: () => void): Promise<Next> {
    const next = await this.#round.run(this.#demand, how.kind === 'claim alone', onCommitted)
    if (next.kind !== 'sleep') return next
    // While paused, the runner sleeps all the same; but it may be resumed before it does.
    if (this.#hints.again || next.partial || this.#demand.paused) return CLAIM
    this.#hints.foundNothing()
    if (!this.#hints.claiming && !this.#demand.draining.aborted) this.#demand.asleep(next.nextDueMs)
    return next
  }

  async #failed(error: unknown, retryInMs: number): Promise<void> {
    const { draining } = this.#demand
    this.#round.failed(error, retryInMs)
    // Perhaps the hint had woken this runner: meanwhile a sleeping one claims at the next hint.
    if (this.#hints.sleeping && !this.#hints.claiming && !draining.aborted) this.#demand.asleep(null)
    await pause(retryInMs, AbortSignal.any([draining, this.#back.signal]))
  }

  /** A runner ends, and leaves its hint to another. */
  #leave(): void {
    this.#staying -= 1
    if (this.#hints.sleeping) this.#hints.wake('poke')
    else this.#demand.awake()
  }

  #isOurStop(error: unknown): boolean {
    return this.#demand.stopping.aborted && isSluiceError(error, 'STOPPED')
  }
}

const SLEEP = { kind: 'sleep', nextDueMs: null, partial: false } as const satisfies Next
