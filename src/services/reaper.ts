import type { Control } from '../connection/control.ts'
import { forgetGone } from '../table/worker/evidence.ts'
import { reapWorkers } from '../table/worker/reap.ts'
import type { Report } from '../telemetry/events.ts'
import { Interval, type Service } from './service.ts'

export interface ReaperOptions {
  readonly control: Pick<Control, 'execute'>
  readonly workerId: () => number
  readonly report: Report
  /** How often to look, in milliseconds. @default 30000 */
  readonly intervalMs?: number
}

/**
 * Finds workers that have vanished and writes evidence against the messages that they had in flight. Those messages are
 * available at once without it; the evidence is for counting. It also runs before a batch is recorded, so that one
 * death is known before the same message can cause the next.
 */
export class Reaper implements Service<number> {
  readonly #options: ReaperOptions
  readonly #interval: Interval
  #staleAt = Number.NEGATIVE_INFINITY
  #hurried: Interval | undefined
  /** When a poll has said last whether any worker is dead. */
  #polledAt = Number.NEGATIVE_INFINITY
  #sweeps = 0
  #foundAt = Number.NEGATIVE_INFINITY
  #passing: Promise<number> | undefined
  #doubtsUntil = Number.NEGATIVE_INFINITY

  constructor(options: ReaperOptions) {
    this.#options = options
    this.#interval = new Interval(options.intervalMs ?? 30_000, () => this.#sweep())
  }

  start(): void {
    this.#interval.start()
  }

  async stop(): Promise<void> {
    await this.#hurried?.stop()
    await this.#interval.stop()
  }

  /**
   * From now on it looks every second: what a dead worker has leased is free only when it is found dead. While polls
   * say whether there is one, it makes no passes for that.
   */
  hurry(): void {
    if (this.#hurried !== undefined) return
    this.#hurried = new Interval(HURRY_MS, async () => {
      if (performance.now() - this.#polledAt >= POLLED_MS) await this.runIfStale()
    })
    this.#hurried.start()
  }

  get isHurried(): boolean {
    return this.#hurried !== undefined
  }

  /** A poll has looked for dead workers. One that it has found is not left for a later poll, however recent the last pass is. */
  polled(anyDead: boolean): void {
    this.#polledAt = performance.now()
    if (anyDead && !this.#doubts) this.runOnce().catch(() => undefined)
  }

  /**
   * Our own connection is lost: from now on no worker counts as dead. What has ended it may have ended those of others,
   * who are alive and on their way back.
   */
  lost(): void {
    this.#doubtsUntil = Number.POSITIVE_INFINITY
  }

  /** Our connection is back: the others get a little longer. */
  restored(): void {
    this.#doubtsUntil = performance.now() + DOUBT_MS
  }

  /** Makes one pass, or waits for the one under way. Returns how many dead workers it found. */
  runOnce(): Promise<number> {
    this.#passing ??= this.#pass().finally(() => {
      this.#passing = undefined
    })
    return this.#passing
  }

  async #pass(): Promise<number> {
    const startedAt = performance.now()
    const dead = await reapWorkers(this.#options.control.execute, this.#options.workerId())
    const tookMs = performance.now() - startedAt
    this.#staleAt = startedAt + Math.min(Math.max(tookMs / SHARE, LEAST_FRESH_MS), LONGEST_FRESH_MS)
    if (dead.length > 0) this.#foundAt = performance.now()
    for (const worker of dead) this.#options.report({ kind: 'worker.crashed', ...worker })
    return dead.length
  }

  async #sweep(): Promise<void> {
    if (!this.#doubts) await this.runOnce()
    this.#sweeps += 1
    if (this.#sweeps % FORGET_SWEEPS === 0) await forgetGone(this.#options.control.execute)
  }

  /**
   * Makes one pass, unless it is in doubt, or the last is so recent that passes would take more than a fiftieth of the
   * time. Returns whether dead workers were found just now: then there may be evidence that a claim has not seen.
   */
  async runIfStale(): Promise<boolean> {
    const isDue = performance.now() >= this.#staleAt && !this.#doubts
    if (this.#passing !== undefined || isDue) await this.runOnce()
    return performance.now() - this.#foundAt < JUST_NOW_MS
  }

  get #doubts(): boolean {
    return performance.now() < this.#doubtsUntil
  }
}

/** Evidence about messages that are gone does no harm, so it may stay for some minutes. */
const FORGET_SWEEPS = 10
const HURRY_MS = 1_000
/** Longer than from one poll to the next: 1.2 seconds, unless `pollInterval` is longer or the polls take long. */
const POLLED_MS = 1_500
const SHARE = 0.02
/** A pass beside a claim also counts for the batch of that claim. */
const LEAST_FRESH_MS = 10
const LONGEST_FRESH_MS = 500
const JUST_NOW_MS = 1_000
/** The longest pause between two tries to connect again is 5 seconds; the rest is for the connection. */
const DOUBT_MS = 6_000
