import { startTimer } from '../basics/start-timer.ts'
import type { Control } from '../connection/control.ts'
import type { Settings } from '../settings/settings.ts'
import { readHeads } from '../table/stream/read-heads.ts'
import type { CancelRequest } from '../table/worker/cancel-requests.ts'
import { pollQueues, unwatchedQueues } from '../table/worker/wait.ts'
import { registerQueues } from '../table/worker/worker.ts'
import { type Waiter, WaitingQueue, type WakeReason } from './waiting-queue.ts'

/** Where a demand that found nothing sleeps. */
export type DemandSleepers = Pick<Sleepers, 'attach' | 'detach' | 'asleep' | 'awake' | 'found'>

export interface SleepersOptions {
  readonly control: Pick<Control, 'execute' | 'onDown'>
  readonly workerId: () => number
  readonly pollIntervalMs: number
  /** Whether notifications arrive. If they do not, a raised flag would only slow producers down. */
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
 * The sleeping demands of a process: they found nothing. A notification, the next due time, the poll, a reconnection or
 * a poke wakes them. One poll serves all queues.
 */
export class Sleepers {
  readonly #firstClaim = Promise.withResolvers<void>()
  /** Resolves when a claim of this process has been answered. */
  readonly firstClaim = this.#firstClaim.promise
  readonly #options: SleepersOptions
  readonly #queues = new Map<string, WaitingQueue>()
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

  constructor(options: SleepersOptions) {
    this.#options = options
    options.control.onDown(() => this.#each((queue) => queue.flag.forget()))
  }

  /** The queues that this process consumes, those of groups among them. */
  get queues(): readonly string[] {
    return [...this.#queues.keys()].filter((name) => !isStream(name))
  }

  /** How many connections the process may use at a time for its waiters and for itself. */
  get #connections(): number {
    const waiters = [...this.#queues.values()].flatMap((queue) => [...queue.waiters])
    const wanted = waiters.reduce((sum, { connections = 0 }) => sum + connections, OWN_CONNECTIONS)
    return Math.min(wanted, this.#options.maxConnections ?? wanted)
  }

  /** How long ago a poll was answered last; null: none was yet. */
  get polledMs(): number | null {
    return this.#polledAt === undefined ? null : performance.now() - this.#polledAt
  }

  /** Whether polls are answered. One may be late by two intervals, and by the time that a statement may take. */
  get polls(): boolean {
    return performance.now() < this.#pollDueAt + 2 * this.#options.pollIntervalMs + LONGEST_ANSWER_MS
  }

  start(): void {
    this.#started = true
    this.#pollDueAt = performance.now() + this.#options.pollIntervalMs
    this.#schedulePoll(this.#options.pollIntervalMs)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    clearImmediate(this.#registering)
    this.#each((queue) => queue.close())
    this.#queues.clear()
    await this.#polling
  }

  /** Adds the queue to the poll and, at once, to `sluice.workers`. */
  attach(waiter: Waiter): void {
    if (!this.#queues.has(waiter.queue)) this.#changed = true
    this.#of(waiter.queue).waiters.add(waiter)
    // Queues that start together are recorded together.
    if (this.#changed && this.#started && this.#isRegistered)
      this.#registering ??= setImmediate(() => void this.#register())
  }

  detach(waiter: Waiter): void {
    const queue = this.#queues.get(waiter.queue)
    if (queue === undefined) return
    queue.waiters.delete(waiter)
    queue.asleep.delete(waiter)
    if (queue.asleep.size === 0) queue.flag.lower()
    if (queue.waiters.size === 0) {
      queue.close()
      this.#queues.delete(waiter.queue)
      this.#changed = true
    }
  }

  /**
   * The waiter has demand and found nothing to take: it sleeps.
   *
   * @param how quiet: without the flag, because no message enqueued now can be taken; so the poll alone wakes
   */
  asleep(waiter: Waiter, nextDueMs: number | null, how: 'flag' | 'quiet' = 'flag'): void {
    this.#firstClaim.resolve()
    if (this.#stopped) return
    const queue = this.#of(waiter.queue)
    queue.asleep.add(waiter)
    if (nextDueMs !== null) queue.wakeIn(nextDueMs)
    if (how === 'quiet') queue.flag.lower()
    else if (this.#options.listening()) queue.flag.raise()
  }

  /** Messages were found. The age of the youngest is about the time of a COMMIT on this server. */
  found(name: string, youngestMs: number): void {
    this.#firstClaim.resolve()
    this.#queues.get(name)?.flag.found(youngestMs)
  }

  /** The waiter found messages, or has no demand left, so it no longer waits. */
  awake(waiter: Waiter): void {
    const queue = this.#queues.get(waiter.queue)
    if (queue === undefined) return
    queue.asleep.delete(waiter)
    if (queue.asleep.size === 0) queue.flag.lower()
  }

  /** Wakes the waiters of a queue or, without a queue, all of them. */
  wake(reason: WakeReason, name?: string): void {
    if (name === undefined) this.#each((queue) => queue.wake(reason))
    else this.#queues.get(name)?.wake(reason)
  }

  /** The listener hears (again): reads what it may have missed. */
  listenerUp(): void {
    const { settings, control } = this.#options
    settings?.refresh(control.execute).catch(() => undefined)
    this.#changed = true
    this.wake('reconnect')
  }

  /** The listener is gone: lower the flags and rely on the poll. */
  listenerDown(): void {
    this.#each((queue) => queue.flag.lower())
  }

  /** A notification came: there are messages, or another process no longer waits. */
  notified(name: string): void {
    const queue = this.#queues.get(name)
    queue?.flag.notified()
    queue?.wake('notification')
  }

  /**
   * A setting of a queue has changed: it is paused or resumed, for example. Without settings the waiters claim, and
   * find the change then.
   */
  settingsChanged(name: string): void {
    const { settings, control } = this.#options
    if (settings === undefined) this.#queues.get(name)?.wake('notification')
    // If it fails, the poll reads it.
    else settings.refresh(control.execute).catch(() => undefined)
  }

  get #isRegistered(): boolean {
    return this.#options.registered ?? true
  }

  #of(name: string): WaitingQueue {
    let queue = this.#queues.get(name)
    if (queue === undefined) {
      queue = new WaitingQueue(name, this.#options)
      this.#queues.set(name, queue)
    }
    return queue
  }

  #each(visit: (queue: WaitingQueue) => void): void {
    for (const queue of [...this.#queues.values()]) visit(queue)
  }

  #schedulePoll(delayMs: number): void {
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

  async #register(): Promise<void> {
    this.#registering = undefined
    this.#changed = false
    await registerQueues(this.#options.control.execute, this.#options.workerId(), this.queues).catch(() => {
      // The next poll records them.
      this.#changed = true
    })
  }

  async #poll(): Promise<void> {
    const started = performance.now()
    let tookMs = 0
    let answered = false
    this.#polls += 1
    try {
      if (this.#isRegistered) await this.#pollQueues()
      else this.#each((queue) => queue.wakeSleeping('poll'))
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
    this.#schedulePoll(delayMs)
  }

  async #pollQueues(): Promise<void> {
    const { control, workerId, settings } = this.#options
    const isDue = this.#polls % HEARTBEAT_POLLS === 0 || performance.now() - this.#heardAt > LONGEST_SILENCE_MS
    const heartbeat = this.#changed || isDue || (this.#options.hasNews?.() ?? false)
    this.#changed = false
    try {
      const done = heartbeat ? (this.#options.statistics?.() ?? null) : null
      const asleep = [...this.#queues.values()].filter((queue) => queue.asleep.size > 0).map(({ name }) => name)
      const waiting = asleep.filter((name) => !isStream(name))
      const consumed = heartbeat ? this.queues : null
      const reaper = this.#options.reaper?.()
      const polled = await pollQueues(control.execute, workerId(), waiting, {
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
      await this.#pollStreams(asleep.filter(isStream), waiting)
    } catch (error) {
      this.#changed ||= heartbeat
      throw error
    }
  }

  async #pollStreams(names: readonly string[], waiting: readonly string[]): Promise<void> {
    if (names.length === 0) return
    const streams = names.map((name) => name.slice(1))
    const { heads, groups } = await readHeads(this.#options.control.execute, streams, waiting)
    if (this.#stopped) return
    for (const { stream, head } of heads) this.#queues.get(wakeNameOf(stream))?.polledState(head)
    for (const { queue, state, heldMs } of groups) {
      this.#queues.get(queue)?.polledState(state)
      if (heldMs !== null) this.#queues.get(queue)?.polled({ queue, nextDueMs: heldMs, keyed: false })
    }
  }

  /** The process whose flag we relied on may have vanished without a notification. */
  async #checkFlags(): Promise<void> {
    const others = [...this.#queues.values()].filter((queue) => queue.flag.reliesOnOthers).map((queue) => queue.name)
    if (others.length === 0) return
    const unwatched = await unwatchedQueues(this.#options.control.execute, others)
    for (const name of unwatched) this.#queues.get(name)?.flag.othersMoved()
  }
}

/** The name under which a stream wakes its sleepers. No name of a queue has a `/`. */
export function wakeNameOf(stream: string): string {
  return `/${stream}`
}

function isStream(name: string): boolean {
  return name.startsWith('/')
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
