import { type Admission, type Admitted, UNLIMITED } from '../../claim/admission.ts'
import type { ClaimAnswer, SentClaim } from '../../claim/claim-answer.ts'
import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import { isSluiceError } from '../../errors.ts'
import type { LogPlan, TransactionalPlan } from '../../plan/options.ts'
import { Settlement } from '../../settle/settlement.ts'
import type { ClaimedRow } from '../../table/claim/claim.ts'
import type { Execute } from '../../table/statement.ts'
import { noteEmpty, readGroup, readQueued } from '../../table/stream/known-group.ts'
import { allAnswered } from '../../transaction/all-answered.ts'
import type { BatchConnection } from '../../transaction/batch-connection.ts'
import { wakeNameOf } from '../../wake-up/waiting-queues.ts'
import { LockedSource } from '../locked-source.ts'
import { type ClockAnswer, rulesOf, type SourceRuntime } from '../rules-of.ts'
import type { TransactionalSource } from '../source.ts'
import { limitOf } from '../transaction-limit.ts'
import { type EventAnswer, EventClaimer, isEventAnswer, PartitionsChanged } from './event-claimer.ts'
import { LogRows } from './log-rows.ts'

/**
 * The events of a stream for a group: from the log, and from the group's queue, where failed events wait for their next
 * try. The queue is asked when something in it may be due, and whenever the log has nothing. With a backlog in both
 * they take turns.
 */
export class LogSource implements TransactionalSource {
  readonly isSingle = false
  readonly wokenBy: string
  readonly #runtime: SourceRuntime
  readonly #plan: TransactionalPlan
  readonly #log: LogPlan
  readonly #queue: LockedSource
  readonly #random: () => number
  /** Undefined until the group is known. */
  #events: EventClaimer | undefined
  /** Claims of the queue that have been sent; the others are of the log. */
  readonly #ofQueue = new WeakSet<SentClaim>()
  /** When something in the queue may be due, on the clock of `performance`. */
  #queueDueAt = 0
  #lastWasQueue = true
  /** When it may be noted next that the queue is empty, on the clock of `performance`. */
  #noteEmptyAt = 0

  constructor(runtime: SourceRuntime, plan: TransactionalPlan, log: LogPlan, random: () => number = Math.random) {
    this.wokenBy = wakeNameOf(log.stream)
    this.#runtime = runtime
    this.#plan = plan
    this.#log = log
    this.#random = random
    this.#queue = new LockedSource(runtime, plan, undefined, random)
  }

  /** Limits are for queues. */
  async admit(): Promise<Admission> {
    return UNLIMITED
  }

  settlement(answer: ClockAnswer): Settlement {
    if (!isEventAnswer(answer)) return this.#queue.settlement(answer)
    const { alphabet } = this.#runtime
    const { queue } = this.#plan
    const rules = rulesOf(this.#runtime, this.#plan, answer)
    const { mayRepeat = false } = this.#log
    const rows = new LogRows(answer.log, { queue, alphabet, passedUs: rules.clock.passedUs, mayRepeat })
    const stopsAt = answer.log.onFailure === 'stop' ? rows.partitionOf : undefined
    return new Settlement({ ...rules, stopsAt }, rows, alphabet)
  }

  /** The next claim of an event settles its attempt: the progress of its partition is not locked now. */
  async claimAgain(execute: Execute, message: DeliveredMessage): Promise<Settlement | undefined> {
    return isEvent(message.row) ? undefined : this.#queue.claimAgain(execute, message)
  }

  narrow(): void {
    this.#queue.narrow()
    this.#events?.narrow()
  }

  widen(): void {
    this.#queue.widen()
    this.#events?.widen()
  }

  resize(concurrency: number): void {
    this.#queue.resize(concurrency)
  }

  /** Sends a claim in the transaction that has just been begun. */
  send(connection: BatchConnection, terms: Admitted = {}): SentClaim {
    this.#lastWasQueue = !this.#lastWasQueue && performance.now() >= this.#queueDueAt
    if (this.#lastWasQueue) {
      const sent = this.#sendQueue(connection, terms)
      this.#ofQueue.add(sent)
      return sent
    }
    const first =
      this.#events === undefined ? this.#claimFirst(connection, terms) : this.#claimEvents(connection, terms)
    // Awaited later, perhaps after an error that ends the connection's use.
    first.catch(ignore)
    return { terms, first, atOnce: this.#events !== undefined, scan: undefined }
  }

  /** The answer to a sent claim; where that took nothing, of the other source. */
  async take(connection: BatchConnection, sent: SentClaim): Promise<ClaimAnswer> {
    const { terms } = sent
    if (this.#ofQueue.has(sent)) return this.#elseEvents(connection, terms, await this.#takeQueue(connection, sent))
    const first = await sent.first
    if (!isEventAnswer(first)) return this.#elseEvents(connection, terms, first)
    const answer = await this.#whenDeferred(connection, terms, first)
    if (answer.rows.length > 0) return answer
    return soonest(await this.#takeQueue(connection, this.#sendQueue(connection, terms)), answer)
  }

  async #elseEvents(connection: BatchConnection, terms: Admitted, ofQueue: ClaimAnswer): Promise<ClaimAnswer> {
    if (ofQueue.rows.length > 0 || ofQueue.void) return ofQueue
    return soonest(await this.#takeEvents(connection, terms), ofQueue)
  }

  /** Drops a sent claim: what it locked is free again. */
  unsend(sent: SentClaim | undefined): void {
    if (sent === undefined) return
    if (!this.#ofQueue.has(sent)) {
      sent.first.then(({ rows }) => this.release(rows)).catch(ignore)
      return
    }
    this.#queue.unsend(sent)
    this.#dueAt(performance.now())
  }

  /** Rows that were claimed and not settled. Events are behind the progress still. */
  release(rows: readonly ClaimedRow[]): void {
    this.#queue.release(rows.filter((row) => !isEvent(row)))
  }

  /** Reads the group. What of its queue is due comes before new events. */
  async #claimFirst(connection: BatchConnection, terms: Admitted): Promise<ClaimAnswer> {
    const { group } = await this.#read()
    if (!(await readQueued(this.#runtime.control.execute, group))) return this.#claimEvents(connection, terms)
    this.#lastWasQueue = true
    return this.#takeQueue(connection, this.#sendQueue(connection, terms))
  }

  /** Once the group is known the claim is on its way when this returns: it goes in the packet of the COMMIT before it. */
  async #claimEvents(connection: BatchConnection, { most }: Admitted): Promise<EventAnswer> {
    try {
      return await (this.#events ?? (await this.#read())).claim(connection, most)
    } catch (error) {
      // It may be made anew, with another number.
      if (isSluiceError(error, 'GROUP_UNKNOWN')) this.#events = undefined
      if (!(error instanceof PartitionsChanged)) throw error
      return (await this.#read()).claim(connection, most)
    }
  }

  async #read(): Promise<EventClaimer> {
    const { queue, batchSize } = this.#plan
    const { stream, group } = this.#log
    const known = await readGroup(this.#runtime.control.execute, stream, group)
    this.#events = new EventClaimer({
      queue,
      stream,
      name: group,
      group: known,
      limit: batchSize,
      random: this.#random,
      onQueued: (atMs) => this.#dueAt(atMs),
    })
    return this.#events
  }

  async #takeEvents(connection: BatchConnection, terms: Admitted): Promise<EventAnswer> {
    return this.#whenDeferred(connection, terms, await this.#claimEvents(connection, terms))
  }

  /** Where all events of a claim are deferred there is nothing to handle: they are settled, and it claims again. */
  async #whenDeferred(connection: BatchConnection, terms: Admitted, first: EventAnswer): Promise<EventAnswer> {
    let answer = first
    while (answer.rows.length === 0 && answer.log.events.length > 0) {
      await this.#settle(connection, answer)
      answer = await this.#claimEvents(connection, terms)
    }
    if (answer.queue === 'messages') this.#dueAt(performance.now() + QUEUED_WAIT_MS)
    else if (answer.queue === 'emptied') this.#noteEmpty(answer)
    return answer
  }

  /** Settles a batch of which nothing is to be handled now. The next transaction has begun when it resolves. */
  async #settle(connection: BatchConnection, answer: EventAnswer): Promise<void> {
    const settlement = this.settlement(answer)
    const limit = limitOf(this.#plan, this.#runtime.serverVersion())
    await allAnswered(connection.together(() => [settlement.write(connection.execute), connection.commit(limit)]))
  }

  /** A hint: another claim tries it again. */
  #noteEmpty({ log }: EventAnswer): void {
    const now = performance.now()
    if (now < this.#noteEmptyAt) return
    this.#noteEmptyAt = now + NOTE_EMPTY_MS
    noteEmpty(this.#runtime.control.execute, log.group, this.#plan.queue).catch(ignore)
  }

  /**
   * Until the answer says when it may be due again, it counts as not due; what is heard meanwhile counts beside the answer.
   */
  #sendQueue(connection: BatchConnection, terms: Admitted): SentClaim {
    this.#queueDueAt = Number.POSITIVE_INFINITY
    return this.#queue.send(connection, terms)
  }

  async #takeQueue(connection: BatchConnection, sent: SentClaim): Promise<ClaimAnswer> {
    let waitMs = 0
    try {
      const answer = await this.#queue.take(connection, sent)
      // When the next one is due may only be when it may look again.
      if (answer.rows.length === 0) waitMs = Math.max(answer.nextDueMs ?? Number.POSITIVE_INFINITY, LEAST_QUEUE_WAIT_MS)
      return answer
    } finally {
      this.#dueAt(performance.now() + waitMs)
    }
  }

  #dueAt(atMs: number): void {
    this.#queueDueAt = Math.min(this.#queueDueAt, atMs)
  }
}

/** Whether a claimed row is an event in the log, and no message of the group's queue. */
function isEvent({ id, options }: ClaimedRow): boolean {
  return options !== null && options.eventPosition !== null && id === String(-options.eventPosition)
}

/** What another answer says about when to claim again counts for this one as well, if it found nothing. */
function soonest(answer: ClaimAnswer, { nextDueMs, partial }: ClaimAnswer): ClaimAnswer {
  if (answer.rows.length > 0) return answer
  const due = [answer.nextDueMs, nextDueMs].filter((ms) => ms !== null)
  return { ...answer, nextDueMs: due.length === 0 ? null : Math.min(...due), partial: answer.partial || partial }
}

function ignore(): void {}

/**
 * Other processes may have put messages into the queue, and may be gone: while there are some, it is asked once a second.
 */
const QUEUED_WAIT_MS = 1_000
/** While the log has a backlog, a queue that had nothing is left alone for so long. */
const LEAST_QUEUE_WAIT_MS = 250
/** Each time leaves a dead row, which claims walk while there is an old snapshot: 3,600 in ten hours. */
const NOTE_EMPTY_MS = 10_000
