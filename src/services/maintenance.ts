import type { Control } from '../connection/control.ts'
import { toError } from '../errors.ts'
import { beginPass } from '../table/maintain/tasks.ts'
import type { Report } from '../telemetry/events.ts'
import { type MaintainOptions, type MaintenanceResult, maintain } from './maintain.ts'
import { Interval, type Service } from './service.ts'

export interface MaintenanceOptions extends Pick<MaintainOptions, 'inTransaction' | 'inSession'> {
  readonly control: Pick<Control, 'execute'>
  /** The name of this worker. */
  readonly by: () => string
  readonly report: Report
  /** How often one of all processes makes a pass, in milliseconds. */
  readonly intervalMs: number
}

/**
 * Removes what is too old, and makes the partitions of the history: expired messages, dead letters, dedupe keys, history. Every
 * process asks once per interval whether it is time, which is one statement, and one of them makes the pass.
 */
export class Maintenance implements Service<MaintenanceResult> {
  readonly #options: MaintenanceOptions
  readonly #interval: Interval
  #stopping = new AbortController()
  #passing: Promise<MaintenanceResult> | undefined
  /** The last pass was too short for what there is. */
  #isLate = false

  constructor(options: MaintenanceOptions) {
    this.#options = options
    this.#interval = new Interval(options.intervalMs, () => this.#passInTurn())
  }

  start(): void {
    this.#stopping = new AbortController()
    this.#interval.start()
  }

  /** The pass under way ends after its step. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#interval.stop()
    await this.#passing?.catch(() => undefined)
  }

  /** Makes one pass, whether it is time or not, or waits for the one under way. */
  runOnce(): Promise<MaintenanceResult> {
    this.#passing ??= this.#pass().finally(() => {
      this.#passing = undefined
    })
    return this.#passing
  }

  /**
   * A little less than the interval, so that the same process may make the next pass as well. It makes another at once while a pass
   * ends only for want of time.
   */
  async #passInTurn(): Promise<void> {
    const { control, by, intervalMs } = this.#options
    if (!(await beginPass(control.execute, by(), intervalMs * 0.9))) return
    await this.runOnce()
    while (this.#isLate && !this.#stopping.signal.aborted) {
      // The others see that the pass is taken.
      await beginPass(control.execute, by(), null)
      await this.runOnce()
    }
  }

  async #pass(): Promise<MaintenanceResult> {
    const { inTransaction, inSession, report } = this.#options
    const startedAt = performance.now()
    this.#isLate = false
    const result = await maintain({
      inTransaction,
      inSession,
      signal: this.#stopping.signal,
      onLate: () => {
        this.#isLate = true
      },
      onFailed: (task, error) => report({ kind: 'maintenance.failed', task, error: toError(error) }),
    })
    report({ kind: 'maintenance.done', ...result, durationMs: performance.now() - startedAt })
    return result
  }
}
