import type { Control } from '../connection/control.ts'
import { Poll, type PollOptions } from './poll.ts'
import type { Waiter, WaitingQueue, WakeReason } from './waiting-queue.ts'
import { WaitingQueues } from './waiting-queues.ts'

/** Where a demand that found nothing sleeps. */
export type DemandSleepers = Pick<Sleepers, 'attach' | 'detach' | 'asleep' | 'awake' | 'found'>

export interface SleepersOptions extends PollOptions {
  readonly control: Pick<Control, 'execute' | 'onDown'>
}

/**
 * The sleeping demands of a process: they found nothing. A notification, the next due time, the poll, a reconnection or
 * a poke wakes them.
 */
export class Sleepers {
  readonly #firstClaim = Promise.withResolvers<void>()
  /** Resolves when a claim of this process has been answered. */
  readonly firstClaim = this.#firstClaim.promise
  readonly #options: SleepersOptions
  readonly #queues: WaitingQueues
  /** One poll serves all queues. */
  readonly poll: Poll
  #stopped = false

  constructor(options: SleepersOptions) {
    this.#options = options
    this.#queues = new WaitingQueues(options)
    this.poll = new Poll(options, this.#queues)
    options.control.onDown(() => this.#each((queue) => queue.flag.forget()))
  }

  /** The queues that this process consumes, those of groups among them. */
  get queues(): readonly string[] {
    return this.#queues.consumed
  }

  start(): void {
    this.poll.start()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#queues.close()
    await this.poll.stop()
  }

  /** Adds the queue to the poll and, at once, to `sluice.workers`. */
  attach(waiter: Waiter): void {
    if (this.#queues.get(waiter.queue) === undefined) this.poll.changed()
    this.#queues.of(waiter.queue).waiters.add(waiter)
    this.poll.attached()
  }

  detach(waiter: Waiter): void {
    const queue = this.#queues.get(waiter.queue)
    if (queue === undefined) return
    queue.waiters.delete(waiter)
    queue.asleep.delete(waiter)
    if (queue.asleep.size === 0) queue.flag.lower()
    if (queue.waiters.size === 0) {
      this.#queues.remove(queue)
      this.poll.changed()
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
    const queue = this.#queues.of(waiter.queue)
    queue.asleep.add(waiter)
    if (nextDueMs !== null) queue.wakeIn(nextDueMs)
    if (how === 'quiet') queue.flag.lower()
    // If no notifications arrive, a raised flag would only slow producers down.
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
    this.poll.changed()
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

  #each(visit: (queue: WaitingQueue) => void): void {
    for (const queue of this.#queues.all) visit(queue)
  }
}
