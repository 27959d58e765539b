import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Alphabet } from '../session/alphabet.ts'
import type { Execute } from '../table/statement.ts'
import type { Report } from '../telemetry/events.ts'
import type { Rules } from './decide.ts'
import { type Decided, dueInMs } from './decision.ts'
import { learnTexts } from './send-decisions.ts'
import { countsOf, type SettledCounts, type SettledMessage, settledOf } from './settled-messages.ts'

/** Where the messages of a batch came from, and where what was decided about them is written. */
export interface Sink {
  /**
   * Where a failed message keeps more than its ordering key back: the partition of an event, all of which waits for one
   * that has failed.
   */
  readonly partitionOf: ((message: DeliveredMessage) => number) | undefined
  /**
   * Sends the statements, none if nothing was decided, without waiting in between.
   *
   * @param decided by the ids of the messages
   * @param forgotten messages whose evidence goes
   */
  write(execute: Execute, decided: ReadonlyMap<string, Decided>, forgotten: readonly string[]): Writing
}

/** A settlement that has been sent. */
export interface Writing {
  readonly written: Promise<void>
  /** Messages that stay as they were after all: nothing is written, counted or reported of them. */
  readonly left: ReadonlySet<string>
}

/** Takes decisions, made by its rules. */
export interface Decisions {
  readonly rules: Rules
  put(decided: Decided): void
}

const NEVER: readonly number[] = []

/**
 * The decisions about a batch's messages, which are written in the batch's transaction. A message that is not among them
 * stays as it was, and is free again when the transaction ends.
 */
export class Settlement implements Decisions {
  readonly rules: Rules
  readonly #sink: Sink
  readonly #alphabet: Alphabet
  readonly #decided = new Map<string, Decided>()
  readonly #forgotten: string[] = []

  constructor(rules: Rules, sink: Sink, alphabet: Alphabet) {
    this.rules = rules
    this.#sink = sink
    this.#alphabet = alphabet
  }

  get counts(): SettledCounts {
    return countsOf(this.#decided.values())
  }

  get settled(): readonly SettledMessage[] {
    return settledOf(this.#decided.values())
  }

  /** In how many milliseconds its messages are due again. */
  get dueInMs(): readonly number[] {
    let inMs: number[] | undefined
    const nowUs = this.rules.clock.nowUs()
    for (const one of this.#decided.values()) {
      const ms = dueInMs(one, nowUs)
      if (ms === undefined) continue
      inMs ??= []
      inMs.push(ms)
    }
    return inMs ?? NEVER
  }

  /** About how many messages something is decided. */
  get size(): number {
    return this.#decided.size
  }

  has(id: string): boolean {
    return this.#decided.has(id)
  }

  get partitionOf(): Sink['partitionOf'] {
    return this.#sink.partitionOf
  }

  /** What is decided about a message takes the place of what was decided before. */
  put(decided: Decided): void {
    const { message } = decided
    if (message.evidence !== undefined) this.forgetEvidence(message)
    this.#decided.set(message.id, decided)
  }

  /** Forgets the evidence about a message, also where none is known. */
  forgetEvidence(message: DeliveredMessage): void {
    this.#forgotten.push(message.id)
  }

  /** Reports what has become of the messages, once it is true. */
  reportAll(report: Report): void {
    for (const { event } of this.#decided.values()) if (event !== undefined) report(event)
  }

  /** Asks about characters of errors and reasons that are not known yet. Without an answer they are escaped. */
  async learnTexts(execute: Execute): Promise<void> {
    await learnTexts(execute, this.#alphabet, this.#decided.values())
  }

  /**
   * Sends the statements. Their answers may be awaited after COMMIT has been sent.
   *
   * @throws at once, before the caller can send the COMMIT, if the decisions cannot be written
   */
  write(execute: Execute): Promise<void> {
    const { written, left } = this.#sink.write(execute, this.#decided, this.#forgotten)
    for (const id of left) this.#decided.delete(id)
    return written
  }
}
