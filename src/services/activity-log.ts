import { codeOf } from '../basics/errors/sql-state.ts'
import type { Control } from '../connection/control.ts'
import { orPrivilegeMissing } from '../connection/privilege.ts'
import { toError } from '../errors.ts'
import type { Activity } from '../statistics/activity.ts'
import { type ActivityNote, writeActivity } from '../table/worker/activity.ts'
import type { Report } from '../telemetry/events.ts'
import { Interval, type Service } from './service.ts'

export interface ActivityLogOptions {
  readonly control: Pick<Control, 'execute'>
  readonly workerId: () => number
  /** What was done since the last call, by queue. */
  readonly take: () => ReadonlyMap<string, Activity>
  readonly report: Report
}

/**
 * Writes once a minute what the process has done in each queue, in one row: nothing per message, and nothing while nothing is
 * done. What may not have been written is written again a minute later, under the same number, so that it is there once. A
 * process that is killed takes its last minute with it.
 */
export class ActivityLog implements Service<boolean> {
  readonly #options: ActivityLogOptions
  readonly #interval = new Interval(MINUTE_MS, () => this.runOnce())
  #unwritten: readonly ActivityNote[] = []
  #taken = 0
  #refused: string | undefined

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
    this.#take()
    const notes = this.#unwritten
    if (notes.length === 0) return false
    try {
      await writeActivity(this.#options.control.execute, notes)
    } catch (error) {
      this.#reportOnce(error)
      throw error
    }
    this.#unwritten = this.#unwritten.filter((note) => !notes.includes(note))
    this.#refused = undefined
    return true
  }

  /** While notes cannot be written, what is done meanwhile stays in the meters, and becomes one note later. */
  #take(): void {
    if (this.#unwritten.length >= MOST_UNWRITTEN) return
    const done = this.#options.take()
    if (done.size === 0) return
    this.#taken += 1
    const queues = JSON.stringify(Object.fromEntries(done))
    this.#unwritten = [...this.#unwritten, { workerId: this.#options.workerId(), number: this.#taken, queues }]
  }

  /** What the server refuses, it refuses every minute. A connection that is lost is reported elsewhere. */
  #reportOnce(error: unknown): void {
    const state = codeOf(error)
    if (state === undefined || !REFUSED.test(state) || state === this.#refused) return
    this.#refused = state
    this.#options.report({ kind: 'activity.failed', error: toError(orPrivilegeMissing(error)) })
  }
}

const MINUTE_MS = 60_000
const MOST_UNWRITTEN = 2
/** The classes of SQLSTATE of a privilege or a table that is missing. */
const REFUSED = /^42/
