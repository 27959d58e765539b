import { Activity } from './activity.ts'
import { Meter, type QueueStatistics } from './meter.ts'

/** The meters of a process, by queue. What an ended consumer has counted stays. */
export class Meters {
  readonly #queues = new Map<string, QueueMeters>()

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

  /** For the heartbeat: null if nothing has been consumed. */
  toJson(): string | null {
    return this.#queues.size === 0 ? null : JSON.stringify(this.read())
  }
}

interface QueueMeters {
  readonly running: Set<Meter>
  /** The sum of those that have ended. */
  readonly ended: Meter
}
