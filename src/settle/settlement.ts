import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Message, Outcome } from '../message.ts'
import { isOrdered, type PipelinePlan } from '../plan/options.ts'
import { FALLBACK_RETRY_MS } from '../plan/retry-policy.ts'
import type { Alphabet } from '../session/alphabet.ts'
import { WHOLE_QUEUE_SLOT } from '../table/claim/claim-ordered.ts'
import {
  ackMessages,
  type Dead,
  deadLetterMessages,
  forgetEvidence,
  type HeldKey,
  holdKeys,
  type Postponed,
  postponeMessages,
} from '../table/settle/settle.ts'
import type { Execute } from '../table/statement.ts'
import { type Report, type SluiceEvent, toError, withCause } from '../telemetry/events.ts'
import { allAnswered } from '../transaction/all-answered.ts'

export interface SettlementOptions {
  readonly plan: PipelinePlan
  /** The database's clock when the batch was claimed, in microseconds since 1970. */
  readonly claimedUs: number
  /** The same clock now, or a little later: it is an estimate. */
  readonly nowUs: () => number
  readonly serverVersion: number
  /** What is stored of errors must fit the database's encoding. */
  readonly alphabet: Alphabet
  readonly report: Report
}

/** What became of one message in a batch that has been committed. */
export interface SettledMessage {
  /** The message, as its handler got it. */
  readonly message: Message
  /**
   * What was written: a retry has its delay (`afterMs`), and a message that failed its last attempt has the outcome
   * `deadLetter`, whatever its handler asked for.
   */
  readonly outcome: Outcome
}

/** The rows of a settlement. */
export interface SettlementWrites {
  readonly acked: readonly string[]
  readonly postponed: readonly Postponed[]
  readonly dead: readonly Dead[]
  readonly nowUs: number
}

const NONE: ReadonlySet<string> = new Set()

/**
 * How many messages were settled in which way, in batches that have been committed. A message that is settled more than
 * once, such as one that is retried at once, counts each time. One that was given back unhandled does not count.
 */
export interface SettledCounts {
  /** Handled and removed. */
  readonly acked: number
  /** Failed, or asked for a retry, and due again later. */
  readonly retried: number
  /** Put off by `snooze`: due again later, with no attempt counted. */
  readonly snoozed: number
  /** Moved to the dead letters. */
  readonly dead: number
}

/**
 * Collects what becomes of a batch's messages and writes it in the batch's transaction. A message that is not in it
 * stays as it was, and is free again when the transaction ends.
 */
export class Settlement {
  readonly #options: SettlementOptions
  readonly #acked: string[] = []
  readonly #postponed: Postponed[] = []
  readonly #dead: Dead[] = []
  /** Made for the first of them: most settlements hold nothing. */
  #held: Map<string, HeldKey> | undefined
  readonly #forgotten: string[] = []
  readonly #settled = new Map<string, { readonly message: DeliveredMessage; readonly outcome: Outcome }>()
  readonly #events: SluiceEvent[] = []
  #snoozed = 0

  constructor(options: SettlementOptions) {
    this.#options = options
  }

  get counts(): SettledCounts {
    const retried = this.#postponed.length - this.#snoozed
    return { acked: this.#acked.length, retried, snoozed: this.#snoozed, dead: this.#dead.length }
  }

  get settled(): readonly SettledMessage[] {
    return [...this.#settled.values()].map(({ message, outcome }) => ({ message: message.handed, outcome }))
  }

  /** Nothing has become of any message. */
  get isEmpty(): boolean {
    return this.#settled.size === 0
  }

  has(id: string): boolean {
    return this.#settled.has(id)
  }

  /**
   * Records an outcome; `error` is what the retry policy gets to see. Returns whether the message holds its key back.
   */
  add(message: DeliveredMessage, outcome: Outcome, error?: unknown): boolean {
    if (message.evidence !== undefined) this.forgetEvidence(message)
    switch (outcome.kind) {
      case 'ack':
        this.#acked.push(message.id)
        this.#settled.set(message.id, { message, outcome })
        return false
      case 'snooze':
        this.#snoozed += 1
        this.#settled.set(message.id, { message, outcome })
        this.#postpone(message, message.row.attempt, null, outcome.afterMs)
        return true
      case 'deadLetter':
        this.#die(message, outcome.reason, outcome.error ?? null)
        return false
      case 'retry':
        return this.#retry(message, outcome.error ?? 'The handler asked for a retry', outcome.afterMs, error)
    }
  }

  /** Forgets the evidence about a message, known or not. */
  forgetEvidence(message: DeliveredMessage): void {
    this.#forgotten.push(message.id)
  }

  /** Moves a message to the dead letters that is not tried again. */
  deadLetter(message: DeliveredMessage, reason: string): void {
    this.forgetEvidence(message)
    this.#die(message, reason, null, message.attempt - 1)
  }

  /** Reports what happened to the messages, once it is true. @param lost ids of which it is not */
  reportAll(lost: ReadonlySet<string> = NONE): void {
    for (const event of this.#events) {
      if (!('id' in event) || !lost.has(event.id)) this.#options.report(event)
    }
  }

  /** The messages whose evidence goes with the settlement. */
  get forgotten(): readonly string[] {
    return this.#forgotten
  }

  /** What is to be written, with errors as the database can hold them. */
  get writes(): SettlementWrites {
    return {
      acked: this.#acked,
      postponed: this.#postponed.map(this.#fitted),
      dead: this.#dead.map((dead) => this.#fitted({ ...dead, reason: this.#options.alphabet.fit(dead.reason) })),
      nowUs: Math.floor(this.#options.nowUs()),
    }
  }

  /** Errors or reasons are to be written. */
  get hasTexts(): boolean {
    return this.#postponed.length > 0 || this.#dead.length > 0
  }

  /** Asks about characters of errors and reasons that are not known yet. Without an answer they are escaped. */
  async learnTexts(execute: Execute): Promise<void> {
    const { alphabet } = this.#options
    const strings = [...this.#postponed, ...this.#dead].flatMap((of) => [
      of.error ?? '',
      'reason' in of ? of.reason : '',
    ])
    await alphabet.learnUnknown(execute, strings).catch(() => undefined)
  }

  /** Sends the statements, none if there is nothing to settle, without waiting in between. */
  async write(execute: Execute): Promise<void> {
    const { plan, claimedUs, serverVersion } = this.#options
    const { queue } = plan
    const { acked, postponed, dead, nowUs } = this.writes
    const sent: Promise<void>[] = []
    if (acked.length > 0) sent.push(ackMessages(execute, queue, acked, serverVersion))
    if (postponed.length > 0) sent.push(postponeMessages(execute, queue, postponed, nowUs))
    if (this.#held !== undefined) sent.push(holdKeys(execute, queue, [...this.#held.values()], claimedUs))
    if (dead.length > 0) sent.push(deadLetterMessages(execute, queue, dead))
    if (this.#forgotten.length > 0) sent.push(forgetEvidence(execute, queue, this.#forgotten))
    await allAnswered(sent)
  }

  readonly #fitted = <Settled extends Postponed | Dead>(settled: Settled): Settled => {
    const error = settled.error === null ? null : this.#options.alphabet.fit(settled.error)
    return { ...settled, error }
  }

  #retry(message: DeliveredMessage, text: string, afterMs: number | undefined, error: unknown): boolean {
    const { plan } = this.#options
    const most = message.maxAttempts ?? plan.maxAttempts
    if (message.attempt >= most) {
      this.#die(message, `failed ${message.attempt} of ${most} attempts`, text, message.attempt, error)
      return false
    }
    const retryInMs = Math.round(afterMs ?? this.#delayByPolicy(message, error))
    this.#postpone(message, message.attempt, text, retryInMs)
    this.#settled.set(message.id, { message, outcome: { kind: 'retry', afterMs: retryInMs, error: text } })
    const { id, attempt } = message
    const { type } = message.row
    const { queue } = plan
    this.#events.push(withCause({ kind: 'message.failed', queue, id, type, attempt, error: text, retryInMs }, error))
    return true
  }

  #delayByPolicy(message: DeliveredMessage, error: unknown): number {
    const { plan, report } = this.#options
    try {
      const ms = plan.retry(message.attempt, error)
      if (ms >= 0 && Number.isFinite(ms)) return ms
      throw new TypeError(`expected milliseconds from 0, received ${ms}`)
    } catch (thrown) {
      report({ kind: 'retryPolicy.failed', queue: plan.queue, id: message.id, error: toError(thrown) })
      return FALLBACK_RETRY_MS
    }
  }

  #postpone(message: DeliveredMessage, attempt: number, error: string | null, afterMs: number): void {
    const dueUs = Math.ceil(this.#options.nowUs() + afterMs * 1_000)
    this.#postponed.push({ id: message.id, dueUs, attempt, error })
    if (message.row.slot !== null || isOrdered(this.#options.plan)) this.#hold(message, dueUs)
  }

  /** The key waits for the last of its messages, so that all of them are due when it goes on with the first. */
  #hold({ id, row }: DeliveredMessage, untilUs: number): void {
    const orderingKey = row.orderingKey ?? ''
    this.#held ??= new Map()
    const held = this.#held.get(orderingKey)
    if (held === undefined) {
      this.#held.set(orderingKey, { slot: row.slot ?? WHOLE_QUEUE_SLOT, orderingKey, messageId: id, untilUs })
    } else if (held.untilUs < untilUs) {
      this.#held.set(orderingKey, { ...held, untilUs })
    }
  }

  #die(
    message: DeliveredMessage,
    reason: string,
    error: string | null,
    attempt = message.attempt,
    thrown?: unknown,
  ): void {
    this.#dead.push({ id: message.id, attempt, reason, error })
    const outcome = { kind: 'deadLetter', reason, ...(error === null ? {} : { error }) } as const
    this.#settled.set(message.id, { message, outcome })
    const { id } = message
    const { type } = message.row
    const { queue } = this.#options.plan
    this.#events.push(withCause({ kind: 'message.dead', queue, id, type, attempt, reason, error }, thrown))
  }
}
