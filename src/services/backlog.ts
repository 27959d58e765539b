import type { Control } from '../connection/control.ts'
import type { BacklogPlan } from '../plan/backlog.ts'
import { readBacklog } from '../table/worker/backlog.ts'
import type { Report } from '../telemetry/events.ts'
import { Interval, type Service } from './service.ts'

export interface BacklogMonitorOptions {
  readonly control: Pick<Control, 'execute'>
  readonly report: Report
  readonly nowMs?: () => number
}

/** Warns when a queue has more messages, or older ones, than it should, and not again for a while. */
export class BacklogMonitor implements Service<boolean> {
  readonly #queue: string
  readonly #plan: BacklogPlan
  readonly #options: BacklogMonitorOptions
  readonly #interval: Interval
  #warnedAtMs = Number.NEGATIVE_INFINITY

  constructor(queue: string, plan: BacklogPlan, options: BacklogMonitorOptions) {
    this.#queue = queue
    this.#plan = plan
    this.#options = options
    this.#interval = new Interval(plan.everyMs, () => this.runOnce())
  }

  start(): void {
    this.#interval.start()
  }

  stop(): Promise<void> {
    return this.#interval.stop()
  }

  /** Returns whether it has warned. While it may not warn, it asks nothing. */
  async runOnce(): Promise<boolean> {
    const [queue, plan] = [this.#queue, this.#plan]
    const { control, report, nowMs = () => performance.now() } = this.#options
    if (nowMs() - this.#warnedAtMs < plan.againMs) return false
    const { messages: limit = null, ageMs = null } = plan
    const { messages, oldestMs } = await readBacklog(control.execute, queue, (limit ?? 0) + 1, ageMs !== null)
    const isLong = limit !== null && messages > limit
    const isOld = ageMs !== null && oldestMs !== null && oldestMs > ageMs
    if (!isLong && !isOld) return false
    this.#warnedAtMs = nowMs()
    report({ kind: 'queue.backlog', queue, moreThan: isLong ? limit : null, oldestMs: isOld ? oldestMs : null })
    return true
  }
}
