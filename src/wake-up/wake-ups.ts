import type { SluiceConfig } from '../config.ts'
import { Control } from '../connection/control.ts'
import { notifyListener } from '../table/worker/wait.ts'
import type { Report } from '../telemetry/events.ts'
import { Scheduler, type SchedulerOptions } from './scheduler.ts'
import { Watcher, type WatcherOptions } from './watcher.ts'

export interface WakeUpsOptions
  extends Omit<SchedulerOptions, 'control' | 'pollIntervalMs' | 'listening'>,
    Pick<WatcherOptions, 'onCancelled' | 'onHolds'> {
  readonly config: Pick<SluiceConfig, 'directConnection' | 'vouched' | 'connectTimeoutMs' | 'pollIntervalMs'>
  readonly report: Report
  /** The listener hears (again). */
  readonly onListening?: () => void
}

/** What wakes a process: its control connection, its listener, and the scheduler that both of them serve. */
export class WakeUps {
  readonly control: Control
  readonly scheduler: Scheduler
  readonly #watcher: Watcher

  constructor({ config, report, onCancelled, onHolds, onListening, ...options }: WakeUpsOptions) {
    const { directConnection: connection, vouched, connectTimeoutMs, pollIntervalMs } = config
    const control = new Control({ connection, connectTimeoutMs, report, vouched })
    const listening = () => this.#watcher.listening && !control.shared
    const scheduler = new Scheduler({ ...options, control, pollIntervalMs, listening })
    this.control = control
    this.scheduler = scheduler
    this.#watcher = new Watcher({
      connection,
      connectTimeoutMs,
      workerId: options.workerId,
      report,
      allowed: () => !control.shared,
      notify: (payload) => notifyListener(control.execute, payload),
      onNotification: (queue) => scheduler.notified(queue),
      onSettings: (queue) => scheduler.settingsChanged(queue),
      onCancelled,
      onHolds,
      onUp: () => {
        scheduler.listenerUp()
        onListening?.()
      },
      onDown: () => scheduler.listenerDown(),
    })
    control.onRestored(() => scheduler.wake('reconnect'))
  }

  /** @throws SluiceError UNREACHABLE within the connect timeout, and what a listener of `control.onUp` throws */
  async start(): Promise<void> {
    await this.control.start()
    this.#watcher.start()
    this.scheduler.start()
  }

  /** Nothing wakes the process any more. The control connection stays. */
  async stop(): Promise<void> {
    await this.#watcher.stop()
    await this.scheduler.stop()
  }

  async close(): Promise<void> {
    await this.stop()
    await this.control.stop()
  }

  /** Gives up what the server has not answered. */
  cut(): void {
    void this.control.stop()
    void this.#watcher.stop()
  }
}
