import { Coalesced } from '../basics/promises/coalesced.ts'
import { NO_SETTINGS, type SettingsInForce } from '../table/settings/queue-settings.ts'
import { type AllSettings, readSettings } from '../table/settings/read-settings.ts'
import type { Execute } from '../table/statement.ts'

/**
 * What a worker process knows of `sluice.queue`. It is read when the control connection is established, with each poll,
 * and at once when a notification says that something has changed: so a change is in force one poll interval later at
 * the latest, and settings are not read per message or per claim.
 */
export class Settings {
  #known: AllSettings | undefined
  readonly #watchers = new Map<string, Set<SettingsListener>>()
  readonly #refreshing = new Coalesced()

  /** Which version of the table this is; null: none has been read on this connection. */
  get version(): string | null {
    return this.#known?.version ?? null
  }

  /** The settings of a queue: an object that does not change. To be read anew whenever it is needed. */
  of(queue: string): SettingsInForce {
    return this.#known?.queues.get(queue) ?? NO_SETTINGS
  }

  /** Hears when the settings of a queue have changed, after {@link of} returns it. Returns what ends that. */
  watch(queue: string, listener: SettingsListener): () => void {
    const listeners = this.#watchers.get(queue) ?? new Set()
    this.#watchers.set(queue, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#watchers.get(queue) === listeners) this.#watchers.delete(queue)
    }
  }

  /** Something was read; undefined: nothing has changed. */
  update(read: AllSettings | undefined): void {
    if (read === undefined) return
    const before = this.#known
    this.#known = read
    for (const [queue, listeners] of [...this.#watchers]) {
      const [old, now] = [before?.queues.get(queue) ?? NO_SETTINGS, this.of(queue)]
      if (isSame(old, now)) continue
      for (const listener of [...listeners]) listener(now, old)
    }
  }

  /** Reads all of it, on a new connection: another server may have another history of versions. */
  async load(execute: Execute): Promise<void> {
    this.update(await readSettings(execute, null))
  }

  /** Reads what has changed. A hint that comes meanwhile leads to one more reading. */
  async refresh(execute: Execute): Promise<void> {
    await this.#refreshing.run(async () => this.update(await readSettings(execute, this.version)))
  }
}

/** @param now what {@link Settings.of} returns from here on */
export type SettingsListener = (now: SettingsInForce, before: SettingsInForce) => void

/** Both are made by the same function, so their properties are in one order. */
function isSame(one: SettingsInForce, other: SettingsInForce): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other)
}
