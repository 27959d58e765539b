import { startTimer } from '../basics/time/start-timer.ts'
import type { Control } from '../connection/control.ts'
import type { Settings } from '../settings/settings.ts'
import { readHeads } from '../table/stream/read-heads.ts'
import type { CancelRequest } from '../table/worker/cancel-requests.ts'
import { pollQueues, unwatchedQueues } from '../table/worker/wait.ts'
import { registerQueues } from '../table/worker/worker.ts'
import type { WaitingQueues } from './waiting-queues.ts'

export interface PollOptions {
  readonly control: Pick<Control, 'execute'>
  readonly workerId: () => number
  readonly pollIntervalMs: number
  /** Whether notifications arrive. */
  readonly listening: () => boolean
  /**
   * Whether the process is in `sluice.workers`. If not, it may lack the right to look into queues: then each poll wakes
   * all waiters. @default true
   */
  readonly registered?: boolean
  /** The settings of queues, which the poll reads too. */
  readonly settings?: Settings | undefined
  /** The statistics of the process, as JSON, for the heartbeat. @default nothing */
  readonly statistics?: () => string | null
  /** Whether they have something in them that should be known sooner than with the next heartbeat. @default no */
  readonly hasNews?: () => boolean
  /** Batches go to the server without a pooler, so that it has as many connections as they need. @default false */
  readonly direct?: boolean
  /** The process has no more connections than this. @default as many as its waiters may use */
  readonly maxConnections?: number | undefined
  readonly random?: () => number
  /** A poll has found when the next schedule is due. Without schedules it is not called. */
  readonly onSchedule?: (inMs: number) => void
  /** A poll has found requests to cancel messages in flight. */
  readonly onCancelRequests?: (requests: readonly CancelRequest[]) => void
  /** What finds dead workers, where the poll is to say whether there are any. */
  readonly reaper?: () => DeathWatch | undefined
}

/** Hears from each poll whether any worker is dead. */
export interface DeathWatch {
  polled(anyDead: boolean): void
}

/**
 * The poll of a process: one statement for all its queues finds what no notification has said. It also brings the settings of
 * queues, requests to cancel and the next schedule, and takes the heartbeat along.
 */
export class Poll {
  readonly #options: PollOptions
  readonly #queues: WaitingQueues
  #timer: NodeJS.Timeout | undefined
  #polls = 0
  #lastPollMs = Number.POSITIVE_INFINITY
  #heardAt = performance.now()
  /** When a poll was answered last. */
  #polledAt: number | undefined
  /** By when the next one is expected. */
  #pollDueAt = Number.POSITIVE_INFINITY
  /** Whether its queues differ from those in `sluice.workers`, or it has begun to listen: the next poll has a heartbeat. */
  #changed = false
  #registering: NodeJS.Immediate | undefined
  #started = false
  #polling: Promise<void> = Promise.resolve()
  #stopped = false

  constructor(options: PollOptions, queues: WaitingQueues) {
    this.#options = options
    this.#queues = queues
  }

  /** How long ago a poll was answered last; null: none was yet. */
  get answeredMs(): number | null {
    return this.#polledAt === undefined ? null : performance.now() - this.#polledAt
  }

  /** Whether polls are answered. One may be late by two intervals, and by the time that a statement may take. */
  get isAnswered(): boolean {
    return performance.now() < this.#pollDueAt + 2 * this.#options.pollIntervalMs + LONGEST_ANSWER_MS
  }

  start(): void {
    this.#started = true
    this.#pollDueAt = performance.now() + this.#options.pollIntervalMs
    this.#schedule(this.#options.pollIntervalMs)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    clearImmediate(this.#registering)
    await this.#polling
  }

  /** What the heartbeat says has changed: the next poll has one. */
  changed(): void {
    this.#changed = true
  }

  /** Queues were attached: `sluice.workers` has them at once. Queues that start together are recorded together. */
  attached(): void {
    if (this.#changed && this.#started && this.#isRegistered)
      this.#registering ??= setImmediate(() => void this.#register())
  }

  get #isRegistered(): boolean {
    return this.#options.registered ?? true
  }

  /** How many connections the process may use at a time for its waiters and for itself. */
  get #connections(): number {
    const wanted = this.#queues.connections + OWN_CONNECTIONS
    return Math.min(wanted, this.#options.maxConnections ?? wanted)
  }

  async #register(): Promise<void> {
    this.#registering = undefined
    this.#changed = false
    const { control, workerId } = this.#options
    await registerQueues(control.execute, workerId(), this.#queues.consumed).catch(() => {
      // The next poll records them.
      this.#changed = true
    })
  }

  #schedule(delayMs: number): void {
    if (this.#stopped) return
    const random = this.#options.random ?? Math.random
    // Varied by a fifth, so that processes that were started together do not poll together.
    this.#timer = startTimer(
      () => {
        this.#polling = this.#poll()
      },
      delayMs * (1 + random() / 5),
    )
  }

  async #poll(): Promise<void> {
    const started = performance.now()
    let tookMs = 0
    let answered = false
    this.#polls += 1
    try {
      if (this.#isRegistered) await this.#pollQueues()
      else for (const queue of this.#queues.all) queue.wakeSleeping('poll')
      tookMs = performance.now() - started
      answered = true
      this.#polledAt = performance.now()
      if (this.#polls % FLAG_POLLS === 0) await this.#checkFlags()
    } catch {
      // The control connection is down. Once it is restored, all claim.
    }
    // Dead rows may make it slow: it may take a twentieth of the time at most. If it only waited behind a statement
    // that waited for a lock, the next one is fast again.
    const slowMs = Math.min(tookMs, this.#lastPollMs)
    this.#lastPollMs = tookMs
    const delayMs = Math.max(this.#options.pollIntervalMs, Math.min(slowMs * 20, 60_000))
    if (answered) this.#pollDueAt = performance.now() + delayMs
    this.#schedule(delayMs)
  }

  async #pollQueues(): Promise<void> {
    const { control, workerId, settings } = this.#options
    const isDue = this.#polls % HEARTBEAT_POLLS === 0 || performance.now() - this.#heardAt > LONGEST_SILENCE_MS
    const heartbeat = this.#changed || isDue || (this.#options.hasNews?.() ?? false)
    this.#changed = false
    try {
      const done = heartbeat ? (this.#options.statistics?.() ?? null) : null
      const { queues: asleep, streams } = this.#queues.asleep
      const consumed = heartbeat ? this.#queues.consumed : null
      const reaper = this.#options.reaper?.()
      const polled = await pollQueues(control.execute, workerId(), asleep, {
        consumed,
        statistics: done,
        listening: this.#options.listening(),
        connections: this.#options.direct === true ? this.#connections : null,
        version: settings?.version,
        dead: reaper !== undefined,
      })
      if (heartbeat) this.#heardAt = performance.now()
      if (this.#stopped) return
      reaper?.polled(polled.anyDead)
      settings?.update(polled.settings)
      if (polled.cancelRequests.length > 0) this.#options.onCancelRequests?.(polled.cancelRequests)
      for (const queue of polled.queues) this.#queues.get(queue.queue)?.polled(queue)
      if (polled.nextScheduleMs !== null) this.#options.onSchedule?.(polled.nextScheduleMs)
      await this.#pollStreams(streams, asleep)
    } catch (error) {
      this.#changed ||= heartbeat
      throw error
    }
  }

  async #pollStreams(streams: readonly string[], waiting: readonly string[]): Promise<void> {
    if (streams.length === 0) return
    const { heads, groups } = await readHeads(this.#options.control.execute, streams, waiting)
    if (this.#stopped) return
    for (const { stream, head } of heads) this.#queues.ofStream(stream)?.polledState(head)
    for (const { queue, state, heldMs } of groups) {
      this.#queues.get(queue)?.polledState(state)
      if (heldMs !== null) this.#queues.get(queue)?.polled({ queue, nextDueMs: heldMs, keyed: false })
    }
  }

  /** The process whose flag we relied on may have vanished without a notification. */
  async #checkFlags(): Promise<void> {
    const others = this.#queues.all.filter((queue) => queue.flag.reliesOnOthers).map((queue) => queue.name)
    if (others.length === 0) return
    const unwatched = await unwatchedQueues(this.#options.control.execute, others)
    for (const name of unwatched) this.#queues.get(name)?.flag.othersMoved()
  }
}

/** The control connection and the listener. */
const OWN_CONNECTIONS = 2
/** The worker's heartbeat goes with every tenth poll, and with the next one after its queues have changed. */
const HEARTBEAT_POLLS = 10
/**
 * Even with the longest wait between two polls, this is well below the three minutes after which a worker without a
 * lock counts as dead.
 */
const LONGEST_SILENCE_MS = 30_000
const FLAG_POLLS = 10
/** After this time the control connection gives a statement up. */
const LONGEST_ANSWER_MS = 10_000
