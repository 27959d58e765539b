import type { KeysOfSlots, MissedMessage } from '../table/claim/missed-message.ts'

/**
 * Keys that claims leave out for a second, because a session that is no batch has locked one of their messages: a statement
 * in psql for example. Without it each claim would come upon that message again, and never upon what is behind more such messages
 * than it may take.
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

  /** For a claim. */
  get keys(): KeysOfSlots {
    const left = [...this.#current()]
    return Object.fromEntries(
      left.map(([slot, keys]) => [slot, Object.fromEntries([...keys.keys()].map((key) => [key, '']))]),
    )
  }

  /** In how many milliseconds the first of them is claimed again; null: there is none. */
  get againMs(): number | null {
    const ends = [...this.#current().values()].flatMap((keys) => [...keys.values()])
    return ends.length === 0 ? null : Math.min(...ends) - this.#now()
  }

  /** What a claim could not lock, and how many messages it took. Returns whether it helps to claim again at once. */
  learn(missed: readonly MissedMessage[], taken: number): boolean {
    for (const { slot, key, locked } of missed) if (locked === true) this.#add(slot, key)
    this.#missedInARow = missed.length === 0 || taken > 0 ? 0 : this.#missedInARow + 1
    return missed.length > 0 && this.#missedInARow <= MOST_IN_A_ROW
  }

  #current(): ReadonlyMap<number, ReadonlyMap<string, number>> {
    const now = this.#now()
    for (const [slot, keys] of this.#untilMs) {
      for (const [key, untilMs] of keys) if (untilMs <= now) keys.delete(key)
      if (keys.size === 0) this.#untilMs.delete(slot)
    }
    return this.#untilMs
  }

  #add(slot: number, key: string): void {
    const keys = this.#untilMs.get(slot) ?? new Map<string, number>()
    keys.set(key, this.#now() + LEFT_OUT_MS)
    this.#untilMs.set(slot, keys)
  }
}

const LEFT_OUT_MS = 1_000
/** Each claim finds as many of such messages as it may take: where a session has locked a whole backlog, claims must end. */
const MOST_IN_A_ROW = 64
