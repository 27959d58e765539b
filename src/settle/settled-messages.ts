import type { Message, Outcome } from '../message.ts'
import { OUTCOMES } from '../outcomes.ts'
import type { Decided } from './decision.ts'

/** What became of one message in a batch that has been committed. */
export interface SettledMessage {
  /** The message, as its handler got it. */
  readonly message: Message
  /**
   * What was written: a retry has its delay (`afterMs`), and a message that failed its last attempt has the outcome
   * `deadLetter`, whatever its handler asked for. In a group that stops it has a retry without a delay.
   */
  readonly outcome: Outcome
}

/**
 * How many messages were settled in which way, in batches that have been committed. A message that is settled more than
 * once, such as one that is retried at once, counts each time. One that was given back unhandled, or
 * that had expired, does not count.
 */
export interface SettledCounts {
  /** Handled and removed. */
  readonly acked: number
  /** Failed, or asked for a retry, and due again later; in a group that stops, also an event that its partition stops at. */
  readonly retried: number
  /** Put off by `snooze`: due again later, with no attempt counted. */
  readonly snoozed: number
  /** Moved to the dead letters. */
  readonly dead: number
}

/**
 * What became of the messages of a `runOnce` or `runDue`: an array of the first 10,000 that were settled, in that order.
 */
export interface SettledMessages extends ReadonlyArray<SettledMessage> {
  /** How many were settled in which way: of all, also beyond the 10,000 that are listed. */
  readonly counts: SettledCounts
}

/** A message takes a kilobyte and more, so a list of a full queue would take all memory of the process. */
const MOST_LISTED = 10_000

/** How many of a batch's messages were settled in which way. */
export function countsOf(decided: Iterable<Decided>): SettledCounts {
  const counts = { acked: 0, retried: 0, snoozed: 0, dead: 0 }
  for (const { outcome } of decided) if (outcome !== undefined) counts[OUTCOMES[outcome.kind].counted] += 1
  return counts
}

/** Those of a batch's messages that were handled. */
export function settledOf(decided: Iterable<Decided>): readonly SettledMessage[] {
  const settled: SettledMessage[] = []
  for (const { message, outcome } of decided) {
    if (outcome !== undefined) settled.push({ message: message.handed, outcome })
  }
  return settled
}

/** Collects what became of the messages of several batches. */
export class SettledCollector {
  readonly #listed: SettledMessage[] = []
  readonly #counts = { acked: 0, retried: 0, snoozed: 0, dead: 0 }

  add(settled: readonly SettledMessage[]): void {
    for (const { outcome } of settled) this.#counts[OUTCOMES[outcome.kind].counted] += 1
    this.#list(settled)
  }

  /** Adds what another has collected. */
  merge(settled: SettledMessages): void {
    for (const { counted } of Object.values(OUTCOMES)) this.#counts[counted] += settled.counts[counted]
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
