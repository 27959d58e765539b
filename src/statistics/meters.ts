import { Activity } from './activity.ts'
import { type ConsumerMetrics, Meter, type QueueStatistics } from './meter.ts'
import { Peers } from './peers.ts'

/** What this process has done since it started: counters and distributions, which only grow. */
export interface Metrics {
  /** What its consumers have done, by queue. */
  readonly consumed: Readonly<Record<string, ConsumerMetrics>>
  /** How many messages it has enqueued, by queue, those of transactions that were rolled back later among them. */
  readonly enqueued: Readonly<Record<string, number>>
  /** How many events it has appended, by stream, in the same way. */
  readonly appended: Readonly<Record<string, number>>
}

/** The meters of a process, by queue. What an ended consumer has counted stays. */
export class Meters {
  /** Those that run. */
  readonly relays = new Peers()
  readonly inboxes = new Peers()
  readonly #queues = new Map<string, QueueMeters>()
  readonly #enqueued = new Map<string, number>()
  readonly #appended = new Map<string, number>()

  /** A consumer begins. */
  open(queue: string, meter: Meter): void {
    const meters = this.#queues.get(queue) ?? { running: new Set(), ended: new Meter() }
    this.#queues.set(queue, meters)
    meters.running.add(meter)
  }

  /** The consumer has ended. */
  close(queue: string, meter: Meter): void {
    const meters = this.#queues.get(queue)
    if (meters?.running.delete(meter)) meters.ended.absorb(meter)
  }

  /** Messages, or events, have been sent to the database. */
  sent(kind: 'enqueue' | 'append', to: string, count: number): void {
    const counts = kind === 'enqueue' ? this.#enqueued : this.#appended
    const name = counts.has(to) || counts.size < MOST_NAMES ? to : OTHERS
    counts.set(name, (counts.get(name) ?? 0) + count)
  }

  readMetrics(): Metrics {
    const consumed = [...this.#queues].map(
      ([queue, { running, ended }]) => [queue, Meter.total([ended, ...running])] as const,
    )
    return {
      consumed: Object.fromEntries(consumed),
      enqueued: Object.fromEntries(this.#enqueued),
      appended: Object.fromEntries(this.#appended),
    }
  }

  read(): Readonly<Record<string, QueueStatistics>> {
    return Object.fromEntries(
      [...this.#queues].map(([queue, { running, ended }]) => [queue, Meter.sum([ended, ...running])]),
    )
  }

  /** What was done in each queue since the last call, without those in which nothing was. */
  takeActivity(): ReadonlyMap<string, Activity> {
    const done = new Map<string, Activity>()
    for (const [queue, { running, ended }] of this.#queues) {
      const activity = new Activity()
      for (const meter of [ended, ...running]) meter.takeActivity(activity)
      if (!activity.isEmpty) done.set(queue, activity)
    }
    return done
  }

  /** A relay or an inbox is in another state than the last heartbeat has told. */
  get hasNews(): boolean {
    return this.relays.hasNews || this.inboxes.hasNews
  }

  /**
   * For the heartbeat: null if there is nothing to tell.
   *
   * @param fitting makes a text such that the database can hold it
   */
  toJson(fitting: (text: string) => string): string | null {
    const told = new Map<string, object>(Object.entries(this.read()))
    for (const [kind, peers] of [['relay', this.relays] as const, ['inbox', this.inboxes] as const]) {
      for (const [queue, state] of peers.tell(fitting)) told.set(queue, { ...told.get(queue), [kind]: state })
    }
    return told.size === 0 ? null : JSON.stringify(Object.fromEntries(told))
  }
}

/** A process that makes a queue for each of its users has no counter for each. */
const MOST_NAMES = 1_000
const OTHERS = '(others)'

interface QueueMeters {
  readonly running: Set<Meter>
  /** The sum of those that have ended. */
  readonly ended: Meter
}
