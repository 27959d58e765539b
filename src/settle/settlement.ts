import { stackOf } from '../basics/stack-of.ts'
import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { shownIdOf } from '../claim/handed-message.ts'
import type { Outcome } from '../message.ts'
import { isOrdered, type PipelinePlan } from '../plan/options.ts'
import type { Alphabet } from '../session/alphabet.ts'
import type { AttemptRules } from '../settings/attempt-rules.ts'
import type { DropReason } from '../table/settle/drop.ts'
import type { Kept } from '../table/settle/keep.ts'
import type { KeptKey } from '../table/settle/keep-keys.ts'
import type { Dead, FailureDetails, Postponed } from '../table/settle/settle.ts'
import type { Execute } from '../table/statement.ts'
import { type Report, type SluiceEvent, withCause } from '../telemetry/events.ts'
import { HeldKeys } from './held-keys.ts'
import type { SettledCounts, SettledMessage } from './settled-messages.ts'
import { type SettlementWrites, writeSettlement } from './write-settlement.ts'

export interface SettlementOptions {
  readonly plan: PipelinePlan
  readonly rules: AttemptRules
  /** The database's clock when the batch was claimed, in microseconds since 1970. */
  readonly claimedUs: number
  /** The same clock now, or a little later: it is an estimate. */
  readonly nowUs: () => number
  /** The same clock now, or a little earlier: what is due then is due for every claim that is sent from now on. */
  readonly passedUs: () => number
  readonly serverVersion: number
  /** The worker's name, as the database can hold it. */
  readonly workerName: () => string
  /** The same, if the queue keeps its history now. */
  readonly historyBy: () => string | undefined
  /** What is stored of errors must fit the database's encoding. */
  readonly alphabet: Alphabet
  readonly report: Report
}

const NEVER: readonly number[] = []
const NONE: ReadonlySet<string> = new Set()

/**
 * Collects what becomes of a batch's messages and writes it in the batch's transaction. A message that is not in it
 * stays as it was, and is free again when the transaction ends.
 */
export class Settlement {
  readonly #options: SettlementOptions
  readonly #acked: string[] = []
  readonly #kept: KeptKey[] = []
  #postponed: Postponed[] = []
  #dead: Dead[] = []
  /** Made for the first of them: most queues have none. */
  #dropped: Map<string, DropReason> | undefined
  /** Made for the first of them: most settlements hold nothing. */
  #held: HeldKeys | undefined
  readonly #forgotten: string[] = []
  readonly #settled = new Map<string, { readonly message: DeliveredMessage; readonly outcome: Outcome }>()
  /** What is to be reported, by message. */
  #events: { readonly id: string; readonly event: SluiceEvent }[] = []
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

  /** In how many milliseconds its messages are due again. */
  get dueInMs(): readonly number[] {
    if (this.#postponed.length === 0) return NEVER
    const nowUs = this.#options.nowUs()
    return this.#postponed.map(({ dueUs }) => Math.max(0, (dueUs - nowUs) / 1_000))
  }

  /** Nothing has become of any message. */
  get isEmpty(): boolean {
    return this.#settled.size === 0 && this.#dropped === undefined
  }

  has(id: string): boolean {
    return this.#settled.has(id) || this.#dropped?.has(id) === true
  }

  /**
   * Records an outcome; `error` is what the retry policy gets to see. Returns whether the message holds its key back.
   */
  add(message: DeliveredMessage, outcome: Outcome, error?: unknown): boolean {
    if (message.evidence !== undefined) this.forgetEvidence(message)
    switch (outcome.kind) {
      case 'ack':
        this.#acked.push(message.id)
        this.#keep(message, outcome.dedupeForMs)
        this.#settled.set(message.id, { message, outcome })
        return false
      case 'snooze':
        this.#snoozed += 1
        this.#settled.set(message.id, { message, outcome })
        this.#postpone(message, message.row.attempt, null, outcome.afterMs)
        return true
      case 'deadLetter':
        return this.giveUp(message, { attempt: message.attempt, reason: outcome.reason, error: outcome.error ?? null })
      case 'retry':
        return this.#retry(message, outcome.error ?? 'The handler asked for a retry', outcome.afterMs, error)
    }
  }

  /** Its dedupe key stays taken for as long as its handler says, or else as it asks for itself. */
  #keep({ id, row, keepsKey }: DeliveredMessage, forMs: number | undefined): void {
    if (forMs === undefined ? keepsKey : forMs > 0 && row.options?.dedupeKey != null)
      this.#kept.push({ id, forMs: forMs ?? null })
  }

  /** Forgets the evidence about a message, known or not. */
  forgetEvidence(message: DeliveredMessage): void {
    this.#forgotten.push(message.id)
  }

  /** Moves a message to the dead letters that is not tried again. */
  deadLetter(message: DeliveredMessage, reason: string): void {
    this.forgetEvidence(message)
    this.giveUp(message, { attempt: message.attempt - 1, reason, error: null })
  }

  /** Where a group's slots wait, the slot of an event, all of which waits for one that has failed. */
  get slotOf(): ((message: DeliveredMessage) => number) | undefined {
    return undefined
  }

  /** The life of a message had ended when it was claimed: it goes without having been handled. */
  expire(message: DeliveredMessage): void {
    const { id, row } = this.#drop(message, 'expired')
    const { queue } = this.#options.plan
    const expiredAt = new Date((row.options?.expiresUs ?? Number.NaN) / 1_000)
    this.#tell(message, { kind: 'message.expired', queue, id, type: row.type, attempt: row.attempt, expiredAt })
  }

  /** Somebody has cancelled a message that is in hand: it goes. Holds nothing. */
  cancel(message: DeliveredMessage): false {
    const { id, attempt, row } = this.#drop(message, 'cancelled')
    const { queue } = this.#options.plan
    this.#tell(message, { kind: 'message.cancelled', queue, id, type: row.type, attempt })
    return false
  }

  #tell({ id }: DeliveredMessage, event: SluiceEvent): void {
    this.#events.push({ id, event })
  }

  #drop(message: DeliveredMessage, reason: DropReason): DeliveredMessage {
    if (message.evidence !== undefined) this.forgetEvidence(message)
    this.#dropped ??= new Map()
    this.#dropped.set(message.id, reason)
    return message
  }

  #droppedFor(reason: DropReason): readonly string[] {
    if (this.#dropped === undefined) return []
    return [...this.#dropped].filter(([, why]) => why === reason).map(([id]) => id)
  }

  /** Messages that have failed stay as they were after all: nothing is written, counted or reported. */
  protected withdraw(ids: ReadonlySet<string>): void {
    for (const id of ids) this.#settled.delete(id)
    const isKept = ({ id }: { readonly id: string }) => !ids.has(id)
    this.#postponed = this.#postponed.filter(isKept)
    this.#dead = this.#dead.filter(isKept)
    this.#events = this.#events.filter(isKept)
  }

  /** Reports what happened to the messages, once it is true. @param lost ids of which it is not */
  reportAll(lost: ReadonlySet<string> = NONE): void {
    for (const { id, event } of this.#events) {
      if (!lost.has(id)) this.#options.report(event)
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
      kept: this.#kept,
      postponed: this.#postponed.map(this.#fitted),
      dead: this.#dead.map((dead) => this.#fitted({ ...dead, reason: this.#options.alphabet.fit(dead.reason) })),
      expired: this.#droppedFor('expired'),
      cancelled: this.#droppedFor('cancelled'),
      // A failure must not seem to be later than the next one.
      nowUs: Math.floor(this.#options.passedUs()),
    }
  }

  /** Errors or reasons are to be written. */
  get hasTexts(): boolean {
    return this.#postponed.length > 0 || this.#dead.length > 0
  }

  /** Keys whose later messages wait. */
  protected get heldKeys(): ReadonlySet<string> {
    return new Set(this.#held?.keys.map(({ orderingKey }) => orderingKey))
  }

  /** Asks about characters of errors and reasons that are not known yet. Without an answer they are escaped. */
  async learnTexts(execute: Execute): Promise<void> {
    const { alphabet } = this.#options
    const strings = [...this.#postponed, ...this.#dead].flatMap((of) => [
      of.error ?? '',
      of.details?.stack ?? '',
      'reason' in of ? of.reason : '',
    ])
    await alphabet.learnUnknown(execute, strings).catch(() => undefined)
  }

  /** Sends the statements, none if there is nothing to settle, without waiting in between. */
  async write(execute: Execute): Promise<void> {
    const { plan, claimedUs, serverVersion } = this.#options
    const { writes } = this
    const held = this.#held?.keys ?? []
    const rows = { ...writes, held, forgotten: this.#forgotten, history: this.#history(writes.acked) }
    await writeSettlement(execute, rows, { queue: plan.queue, claimedUs, serverVersion })
  }

  #history(ids: readonly string[]): Kept | undefined {
    const worker = ids.length === 0 ? undefined : this.#options.historyBy()
    if (worker === undefined) return undefined
    const { claimedUs } = this.#options
    const attempts = ids.map((id) => this.#settled.get(id)?.message.attempt ?? 1)
    return { worker, attempts, claimedUs: ids.map(() => claimedUs) }
  }

  readonly #fitted = <Settled extends Postponed | Dead>(settled: Settled): Settled => {
    const { alphabet } = this.#options
    const error = settled.error === null ? null : alphabet.fit(settled.error)
    const { stack, worker } = settled.details ?? {}
    if (stack === undefined || worker === undefined) return { ...settled, error }
    return { ...settled, error, details: { worker, stack: alphabet.fit(stack) } }
  }

  #retry(message: DeliveredMessage, text: string, afterMs: number | undefined, error: unknown): boolean {
    const { plan } = this.#options
    const most = this.#options.rules.mostOf(message)
    if (message.attempt >= most) {
      const { attempt } = message
      return this.giveUp(message, { attempt, reason: `failed ${attempt} of ${most} attempts`, error: text }, error)
    }
    const afterThat = Math.round(afterMs ?? this.#options.rules.retryInMs(message, error))
    const retryInMs = this.#postpone(message, message.attempt, text, afterThat, error)
    this.#settled.set(message.id, { message, outcome: { kind: 'retry', afterMs: retryInMs, error: text } })
    const { attempt } = message
    const id = shownIdOf(message)
    const { type } = message.row
    const { queue } = plan
    this.#tell(message, withCause({ kind: 'message.failed', queue, id, type, attempt, error: text, retryInMs }, error))
    return true
  }

  /**
   * Until its next try or until it expires: an expired message that waits would keep its key from the later ones. Returns
   * in how many milliseconds that is.
   */
  #postpone(
    message: DeliveredMessage,
    attempt: number,
    error: string | null,
    afterMs: number,
    thrown?: unknown,
  ): number {
    const nowUs = this.#options.nowUs()
    const triedUs = afterMs === 0 ? Math.floor(this.#options.passedUs()) : Math.ceil(nowUs + afterMs * 1_000)
    const dueUs = Math.min(triedUs, message.row.options?.expiresUs ?? triedUs)
    const details = error === null ? undefined : this.#detailsOf(thrown)
    this.#postponed.push({ id: message.id, dueUs, attempt, error, details })
    if (message.row.slot !== null || isOrdered(this.#options.plan)) {
      this.#held ??= new HeldKeys()
      this.#held.hold(message.row, dueUs)
    }
    return dueUs === triedUs ? afterMs : Math.max(0, Math.round((dueUs - nowUs) / 1_000))
  }

  /** Nobody tries the message again. Returns whether it holds its key back. */
  protected giveUp(message: DeliveredMessage, { attempt, reason, error }: GivenUp, thrown?: unknown): boolean {
    this.#dead.push({ id: message.id, attempt, reason, error, details: this.#detailsOf(thrown) })
    const outcome = { kind: 'deadLetter', reason, ...(error === null ? {} : { error }) } as const
    this.#settled.set(message.id, { message, outcome })
    const id = shownIdOf(message)
    const { type } = message.row
    const { queue } = this.#options.plan
    this.#tell(message, withCause({ kind: 'message.dead', queue, id, type, attempt, reason, error }, thrown))
    return false
  }

  #detailsOf(thrown: unknown): FailureDetails {
    return { worker: this.#options.workerName(), stack: stackOf(thrown) }
  }

  /** The message stays, and is not tried again by itself. */
  protected stand(message: DeliveredMessage, { attempt, reason, error }: GivenUp, event: SluiceEvent): true {
    const text = error === null ? reason : `${reason}: ${error}`
    this.#postponed.push({ id: message.id, dueUs: Number.POSITIVE_INFINITY, attempt, error: text })
    this.#settled.set(message.id, { message, outcome: { kind: 'retry', error: text } })
    this.#tell(message, event)
    return true
  }
}

/** Why a message is not tried again, after how many attempts. */
export interface GivenUp {
  readonly attempt: number
  readonly reason: string
  /** Of its last attempt. */
  readonly error: string | null
}
