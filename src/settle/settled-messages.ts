import type { SettledCounts, SettledMessage } from './settlement.ts'

/**
 * What became of the messages of a `runOnce`: the first 10,000 of them, in the order in which they were settled, and
 * how many met which end, of all.
 */
export interface SettledMessages extends ReadonlyArray<SettledMessage> {
  readonly counts: SettledCounts
}

/** A message takes a kilobyte and more: a list of all of a full queue would take the memory of the process. */
const MOST_LISTED = 10_000

const NAMES = { ack: 'acked', retry: 'retried', snooze: 'snoozed', deadLetter: 'dead' } as const

/** Collects what becomes of messages. */
export class SettledCollector {
  readonly #listed: SettledMessage[] = []
  readonly #counts = { acked: 0, retried: 0, snoozed: 0, dead: 0 }

  add(settled: readonly SettledMessage[]): void {
    for (const { outcome } of settled) this.#counts[NAMES[outcome.kind]] += 1
    this.#list(settled)
  }

  /** Adds what another has collected. */
  merge(settled: SettledMessages): void {
    for (const name of Object.values(NAMES)) this.#counts[name] += settled.counts[name]
    this.#list(settled)
  }

  get messages(): SettledMessages {
    const messages = Object.assign([...this.#listed], { counts: { ...this.#counts } })
    // Hidden, so that the list is equal to an array of the same messages.
    return Object.defineProperty(messages, 'counts', { enumerable: false })
  }

  #list(settled: readonly SettledMessage[]): void {
    for (const one of settled.slice(0, MOST_LISTED - this.#listed.length)) this.#listed.push(one)
  }
}
