import { randomInt } from 'node:crypto'
import type { SluiceConfig } from '../config.ts'
import { Control } from '../connection/control.ts'
import type { Report } from '../telemetry/events.ts'
import { createWatcher } from '../wake-up/create-watcher.ts'
import { Scheduler } from '../wake-up/scheduler.ts'
import type { Watcher } from '../wake-up/watcher.ts'

/** A scheduler with the connections that it needs, for a process that may not be registered as a worker. */
export class WakeUps {
  readonly scheduler: Scheduler
  readonly #control: Control
  readonly #watcher: Watcher

  private constructor({ directConnection, vouched, connectTimeoutMs, pollIntervalMs }: SluiceConfig, report: Report) {
    // Others recognise by it who has lowered a flag. The numbers of workers are lower.
    const id = randomInt(2 ** 31, 2 ** 47)
    const workerId = () => id
    const control = new Control({ connection: directConnection, connectTimeoutMs, report, vouched })
    const listening = () => this.#watcher.listening && !control.shared
    this.#control = control
    this.scheduler = new Scheduler({ control, workerId, pollIntervalMs, listening, registered: false })
    this.#watcher = createWatcher({
      connection: directConnection,
      connectTimeoutMs,
      workerId,
      report,
      control,
      scheduler: this.scheduler,
    })
    control.onRestored(() => this.scheduler.wake('reconnect'))
  }

  /** @throws SluiceError UNREACHABLE within the connect timeout */
  static async open(config: SluiceConfig, report: Report): Promise<WakeUps> {
    const wakeUps = new WakeUps(config, report)
    try {
      await wakeUps.#control.start()
    } catch (error) {
      await wakeUps.#control.stop()
      throw error
    }
    wakeUps.#watcher.start()
    wakeUps.scheduler.start()
    return wakeUps
  }

  async close(): Promise<void> {
    await this.#watcher.stop()
    await this.scheduler.stop()
    await this.#control.stop()
  }
}
