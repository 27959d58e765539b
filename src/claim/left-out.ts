import type { KeysOfSlots, MissedMessage } from '../table/claim/missed-message.ts'

/**
 * Keys that claims leave out for a time, because a session that is no batch has locked one of their messages: a statement
 * in psql for example. Without it each claim would come upon that message again, and never upon what is behind more such messages
 * than it may take.
 *
 * The time is a second, and grows with the number of keys: a claim finds no more of them than it may take messages, and the
 * first would be back before the last of a large backlog is found.
 */
export class LeftOut {
  readonly #now: () => number
  /** Until when, by slot and key. */
  readonly #untilMs = new Map<number, Map<string, number>>()
  #missedInARow = 0

  /** @param now milliseconds of a clock that never goes back */
  constructor(now: () => number) {
    this.#now = now
  }

  /** For a claim. Those whose time is over are claimed again by it. */
  get keys(): KeysOfSlots {
    this.#dropOver()
    const left = [...this.#untilMs]
    return Object.fromEntries(
      left.map(([slot, keys]) => [slot, Object.fromEntries([...keys.keys()].map((key) => [key, '']))]),
    )
  }

  /**
   * In how many milliseconds the first of them is claimed again; null: there is none. Zero, and once: its time has ended since a
   * claim left it out.
   */
  againMs(): number | null {
    let first: number | null = null
    for (const keys of this.#untilMs.values()) {
      for (const untilMs of keys.values()) first = Math.min(first ?? untilMs, untilMs)
    }
    this.#dropOver()
    return first === null ? null : Math.max(0, first - this.#now())
  }

  /** What a claim could not lock, and how many messages it took. Returns whether it helps to claim again at once. */
  learn(missed: readonly MissedMessage[], taken: number): boolean {
    this.#missedInARow = missed.length === 0 || taken > 0 ? 0 : this.#missedInARow + 1
    if (missed.length === 0) return false
    const untilMs = this.#untilFor(this.#count() + missed.length)
    for (const { slot, key, locked } of missed) if (locked === true) this.#add(slot, key, untilMs)
    return this.#missedInARow <= MOST_IN_A_ROW && this.#count() < MOST_KEYS
  }

  /** The times of many keys end together, or each would cost claims of its own. */
  #untilFor(count: number): number {
    const forMs = Math.min(LEAST_MS + count * PER_KEY_MS, MOST_MS)
    return Math.ceil((this.#now() + forMs) / TOGETHER_MS) * TOGETHER_MS
  }

  #count(): number {
    const now = this.#now()
    let count = 0
    for (const keys of this.#untilMs.values()) for (const untilMs of keys.values()) if (untilMs > now) count += 1
    return count
  }

  #dropOver(): void {
    const now = this.#now()
    for (const [slot, keys] of this.#untilMs) {
      for (const [key, untilMs] of keys) if (untilMs <= now) keys.delete(key)
      if (keys.size === 0) this.#untilMs.delete(slot)
    }
  }

  #add(slot: number, key: string, untilMs: number): void {
    const keys = this.#untilMs.get(slot) ?? new Map<string, number>()
    keys.set(key, untilMs)
    this.#untilMs.set(slot, keys)
  }
}

const LEAST_MS = 1_000
/** Longer than it takes to find a key with claims of one message: 5 ms, and 25 on a busy machine. */
const PER_KEY_MS = 50
const MOST_MS = 30_000
const TOGETHER_MS = 250

/** Each claim sends and reads them all. */
const MOST_KEYS = 10_000
/** Claims one by one may find keys as slowly as their times end, and must end as well. */
const MOST_IN_A_ROW = 10_000
