import type { Control } from '../connection/control.ts'
import { Activity } from '../statistics/activity.ts'
import { noteActivity } from '../table/worker/activity.ts'
import { Interval, type Service } from './service.ts'

export interface ActivityLogOptions {
  readonly control: Pick<Control, 'execute'>
  readonly workerId: () => number
  /** What was done since the last call, by queue. */
  readonly take: () => ReadonlyMap<string, Activity>
}

/**
 * Writes once a minute what the process has done in each queue, in one row: nothing per message, and nothing while nothing is
 * done. What cannot be written is written a minute later. A process that is killed takes its last minute with it.
 */
export class ActivityLog implements Service<boolean> {
  readonly #options: ActivityLogOptions
  readonly #interval = new Interval(MINUTE_MS, () => this.runOnce())
  #unwritten = new Map<string, Activity>()

  constructor(options: ActivityLogOptions) {
    this.#options = options
  }

  start(): void {
    this.#interval.start()
  }

  /** Sends the rest. The worker's last statement, which follows on the same connection, waits for it. */
  async stop(): Promise<void> {
    await this.#interval.stop()
    void this.runOnce().catch(() => undefined)
  }

  /** Returns whether there was something to write. */
  async runOnce(): Promise<boolean> {
    const { control, workerId, take } = this.#options
    const done = this.#unwritten
    this.#unwritten = new Map()
    addAll(done, take())
    if (done.size === 0) return false
    try {
      await noteActivity(control.execute, workerId(), JSON.stringify(Object.fromEntries(done)))
    } catch (error) {
      addAll(this.#unwritten, done)
      throw error
    }
    return true
  }
}

const MINUTE_MS = 60_000

function addAll(to: Map<string, Activity>, from: ReadonlyMap<string, Activity>): void {
  for (const [queue, activity] of from) {
    const known = to.get(queue) ?? new Activity()
    known.addAll(activity)
    to.set(queue, known)
  }
}
