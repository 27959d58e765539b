import type { DeadLetterSummary, Operate } from 'sluice'
import type { DeadFields } from './dead-filter.ts'
import { type Snapped, Snapshot } from './snapshot.ts'

/** Summaries of dead letters by filter. With many dead letters one takes long, so it is kept for all who look. */
export class Summaries {
  readonly #operate: Operate
  /** The latest last. */
  readonly #kept = new Map<string, Snapshot<DeadLetterSummary>>()

  constructor(operate: Operate) {
    this.#operate = operate
  }

  read(fields: DeadFields, report: (error: unknown) => void): Promise<Snapped<DeadLetterSummary>> {
    const key = JSON.stringify(fields)
    const snapshot = this.#kept.get(key) ?? new Snapshot(() => this.#operate.deadLetters.summarise(fields))
    this.#kept.delete(key)
    this.#kept.set(key, snapshot)
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > MOST && oldest !== undefined) this.#kept.delete(oldest)
    return snapshot.read(report)
  }

  /** Something has changed. */
  expire(): void {
    for (const snapshot of this.#kept.values()) snapshot.expire()
  }
}

const MOST = 50
