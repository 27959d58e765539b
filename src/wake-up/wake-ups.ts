import { setImmediate } from 'node:timers/promises'
import { pause } from '../basics/time/pause.ts'
import type { SluiceConfig } from '../config.ts'
import { Control } from '../connection/control.ts'
import { toError } from '../errors.ts'
import { notifyListener } from '../table/worker/wait.ts'
import type { Report } from '../telemetry/events.ts'
import { Sleepers, type SleepersOptions } from './sleepers.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

export interface WakeUpsOptions
  extends Omit<SleepersOptions, 'control' | 'pollIntervalMs' | 'listening' | 'direct' | 'maxConnections'>,
    Pick<WatcherOptions, 'onCancelled' | 'onHolds'> {
  readonly config: Pick<
    SluiceConfig,
    'directConnection' | 'vouched' | 'connectTimeoutMs' | 'maxConnections' | 'pollIntervalMs'
  >
  readonly report: Report
  /** The listener hears (again). */
  readonly onListening?: () => void
}

/** What wakes a process: its control connection, its listener, and the sleepers that both of them serve. */
export class WakeUps {
  readonly control: Control
  readonly sleepers: Sleepers
  readonly #watcherOptions: WatcherOptions
  readonly #stopping = new AbortController()
  #watching: Promise<void> | undefined
  #watcher: Watcher | undefined

  constructor({ config, report, onCancelled, onHolds, onListening, ...options }: WakeUpsOptions) {
    const { directConnection: connection, vouched, connectTimeoutMs, maxConnections, pollIntervalMs } = config
    const control = new Control({ connection, connectTimeoutMs, report, vouched })
    const listening = () => this.listening
    const sleepers = new Sleepers({ ...options, control, pollIntervalMs, listening, direct: !vouched, maxConnections })
    this.control = control
    this.sleepers = sleepers
    this.#watcherOptions = {
      connection,
      connectTimeoutMs,
      workerId: options.workerId,
      report,
      allowed: () => !control.shared,
      notify: (payload) => notifyListener(control.execute, payload),
      onNotification: (queue) => sleepers.notified(queue),
      onSettings: (queue) => sleepers.settingsChanged(queue),
      onCancelled,
      onHolds,
      onUp: () => {
        sleepers.listenerUp()
        onListening?.()
      },
      onDown: () => sleepers.listenerDown(),
    }
    control.onRestored(() => sleepers.wake('reconnect'))
  }

  /** Whether notifications arrive. */
  get listening(): boolean {
    return this.#watcher?.listening === true && !this.control.shared
  }

  /** @throws SluiceError UNREACHABLE within the connect timeout, and what a listener of `control.onUp` throws */
  async start(): Promise<void> {
    await this.control.start()
    this.sleepers.start()
    this.#watching ??= this.#watch()
  }

  /** Nothing wakes the process any more. The control connection stays. */
  async stop(): Promise<void> {
    await this.#endWatching()
    await this.sleepers.stop()
  }

  async close(): Promise<void> {
    await this.stop()
    await this.control.stop()
  }

  /** Gives up statements that the server has not answered. */
  cut(): void {
    void this.control.stop()
    void this.#endWatching()
  }

  /** After the first claim: pg-listen and one more connection take a tenth of the time from a process's start to its first message. */
  async #watch(): Promise<void> {
    const { signal } = this.#stopping
    // A paused queue is not claimed, and the end of its pause is notified.
    await Promise.race([this.sleepers.firstClaim, pause(LONGEST_WITHOUT_CLAIM_MS, signal)])
    // What the claim has found is handled first.
    await setImmediate()
    if (signal.aborted) return
    try {
      const module = await import('./watcher.ts')
      this.#watcher = new module.Watcher(this.#watcherOptions)
      this.#watcher.start()
    } catch (error) {
      this.#watcherOptions.report({ kind: 'listener.unavailable', error: toError(error) })
    }
  }

  async #endWatching(): Promise<void> {
    this.#stopping.abort()
    await this.#watching
    await this.#watcher?.stop()
  }
}

/** The listener comes up after this time, also where nothing is claimed. */
export const LONGEST_WITHOUT_CLAIM_MS = 100
