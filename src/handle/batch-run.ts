import { isPromise } from '../basics/is-promise.ts'
import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { hasExpired } from '../claim/has-expired.ts'
import { errorText, isSluiceError, messageCancelled } from '../errors.ts'
import type { Outcome } from '../message.ts'
import { isOrdered } from '../plan/options.ts'
import { validatePayload } from '../queues.ts'
import { withCause } from '../telemetry/events.ts'
import type { Attempt } from './attempt.ts'
import type { BatchRunOptions } from './batch-run-options.ts'
import { BlockedKeys } from './blocked-keys.ts'
import { Deadline, type Turn } from './deadline.ts'
import { NotHandled } from './handler.ts'
import { outcomesOf } from './outcomes-of.ts'
import { type Refusal, refusalOf } from './refusal.ts'
import type { RunContext } from './run-context.ts'
import { ACK } from './to-outcome.ts'

/** By how much a deadline may be late on a busy machine. Less than the server's grace. */
const HUNG_MS = 500

/**
 * Runs the handlers of one batch, one after another on its connection, and adds what becomes of each message to the
 * settlement. Messages that it does not reach (the time is up, an earlier one of their key failed, the pipeline stops)
 * are left as they were.
 */
export class BatchRun {
  readonly #options: BatchRunOptions
  /** Made for the first of them: in most batches nothing fails. */
  #blockedKeys: BlockedKeys | undefined
  readonly #startedAt = performance.now()
  readonly #deadline: Deadline
  #hung: readonly DeliveredMessage[] = []
  readonly #begun = new Set<DeliveredMessage>()
  /** Messages that somebody has cancelled. */
  #cancelled: Set<string> | undefined
  /** Those of the call that runs. */
  #running: readonly DeliveredMessage[] = []

  constructor(options: BatchRunOptions) {
    this.#options = options
    const late = options.work.kind === 'each' ? (options.work.late ?? 'handler') : 'handler'
    this.#deadline = new Deadline(options.plan.timeoutMs, late, options.signal)
  }

  /**
   * Whose handler held the process so long that even its deadline came late: if the transaction is lost, the server
   * has ended it because of these. How the connection broke does not tell: often a write fails before the server's
   * own words are read.
   */
  get hung(): readonly DeliveredMessage[] {
    return this.#hung
  }

  /** Whose handlers have been called, or for which something is to be written without that. */
  get begun(): readonly DeliveredMessage[] {
    return [...this.#begun]
  }

  /**
   * Somebody has cancelled a message. If its handler runs, alone, it is told to end, and what it has written is undone; if it
   * has not begun, it does not. If it runs in a batch, it is removed unless it succeeds.
   */
  cancel(id: string): void {
    this.#cancelled ??= new Set()
    this.#cancelled.add(id)
    const [running, ...others] = this.#running
    if (running?.id === id && others.length === 0) this.#deadline.abort(messageCancelled(running.queue, id))
  }

  async run(messages: readonly DeliveredMessage[]): Promise<void> {
    const { work } = this.#options
    try {
      await (work.kind === 'batch' ? this.#runTogether(messages) : this.#runOneByOne(messages))
    } finally {
      this.#deadline.end()
    }
  }

  async #runOneByOne(messages: readonly DeliveredMessage[]): Promise<void> {
    for (const message of messages) {
      if (!this.#reaches(message)) continue
      if (this.#isChecked(message) && !(await this.#mayRun(message))) continue
      const ran = this.#runAlone(message)
      if (ran !== true) await ran
    }
  }

  /** Whether a message may have to die before its handler sees it. */
  #isChecked(message: DeliveredMessage): boolean {
    if (this.#cancelled?.has(message.id)) return true
    return (
      message.evidence !== undefined ||
      this.#options.definition?.schema !== undefined ||
      hasExpired(message.row, this.#options.clock?.nowUs)
    )
  }

  /** Whether there is time for the message, and no earlier one of its key has failed. */
  #reaches(message: DeliveredMessage): boolean {
    return !this.#options.signal.aborted && !this.#blockedKeys?.has(message) && this.#hasTime
  }

  /** A lease is renewed for as long as its message waits; the server ends a batch's transaction. */
  get #hasTime(): boolean {
    const { mode, timeoutMs } = this.#options.plan
    return mode === 'leased' || performance.now() - this.#startedAt < timeoutMs
  }

  /**
   * Ends messages that no handler is to see. A payload that its schema does not take is a failed attempt like any other: while
   * versions of an application run side by side, the next worker may take it.
   */
  async #mayRun(message: DeliveredMessage): Promise<boolean> {
    const { definition, clock, crashLimit } = this.#options
    const isCancelled = this.#cancelled?.has(message.id) === true
    const refusal = refusalOf(message, { isCancelled, clock, crashLimit })
    if (refusal !== undefined) {
      this.#refuse(message, refusal)
      return false
    }
    if (definition?.schema === undefined) return true
    try {
      this.#deadline.next()
      message.accept(await this.#deadline.await(validatePayload(definition, message.payload)))
      return true
    } catch (error) {
      if (!this.#isLeft(error)) this.#settle(message, { kind: 'retry', error: errorText(error) }, error)
    }
    return false
  }

  #refuse(message: DeliveredMessage, refusal: Refusal): void {
    const { settlement } = this.#options
    this.#begun.add(message)
    switch (refusal.kind) {
      case 'cancelled':
        settlement.cancel(message)
        return
      case 'expired':
        settlement.expire(message)
        return
      case 'harmful':
        settlement.deadLetter(message, refusal.reason)
        if (this.#options.slotOf !== undefined) this.#block(message)
        return
      case 'lost try':
        this.#settle(message, { kind: 'retry', error: refusal.error }, new Error(refusal.error))
    }
  }

  #runAlone(message: DeliveredMessage): true | Promise<boolean> {
    const { work } = this.#options
    return work.kind === 'each'
      ? this.#attempt([message], (context) => work.handle(message.handed, context))
      : this.#attempt([message], (context) => work.handle([message.handed], context))
  }

  /** A whole batch in one call; if it throws, each of its messages in a call of its own. */
  async #runTogether(messages: readonly DeliveredMessage[]): Promise<void> {
    const { work } = this.#options
    const fit: DeliveredMessage[] = []
    for (const message of messages) {
      if (this.#reaches(message) && (!this.#isChecked(message) || (await this.#mayRun(message)))) fit.push(message)
    }
    if (fit.length === 0 || work.kind !== 'batch') return
    if (
      await this.#attempt(fit, (context) =>
        work.handle(
          fit.map((message) => message.handed),
          context,
        ),
      )
    )
      return
    // The handler may have changed what it was given.
    for (const message of fit) message.renew()
    await this.#runOneByOne(fit)
  }

  /**
   * Calls the handler once. False: it failed for several messages at once, so that none is to blame yet. What returns without a
   * promise and has not used its transaction is over at once: awaiting it would take as long as the call.
   *
   * @throws only if nothing can come of the batch any more.
   */
  #attempt(messages: readonly DeliveredMessage[], call: (context: RunContext) => unknown): true | Promise<boolean> {
    const attempt = this.#options.attempt(messages)
    const turn = this.#begin(messages)
    try {
      const returned = call(attempt.context(turn, this.#numberOf(messages)))
      if (isPromise(returned) || !attempt.unused) return this.#finish(messages, attempt, turn, returned)
      this.#end(turn)
      const outcomes = outcomesOf(this.#options, messages, attempt, returned)
      attempt.close()
      this.#settleEach(messages, outcomes)
    } catch (error) {
      return this.#finish(messages, attempt, turn, Promise.reject(error))
    }
    this.#over(messages, turn)
    return true
  }

  async #finish(
    messages: readonly DeliveredMessage[],
    attempt: Attempt,
    turn: Turn,
    returned: unknown,
  ): Promise<boolean> {
    try {
      const result = isPromise(returned) ? await this.#deadline.await(returned, attempt) : returned
      // What the handler has not awaited counts as its time.
      if (attempt.unfinished) await this.#deadline.await(attempt.finished(), attempt)
      this.#end(turn)
      const outcomes = outcomesOf(this.#options, messages, attempt, result)
      if (this.#isUndone(outcomes)) await attempt.undo()
      else if (attempt.unused) attempt.close()
      else await attempt.keep()
      this.#settleEach(messages, outcomes)
      return true
    } catch (error) {
      this.#end(turn)
      return await this.#failed(messages, attempt, error)
    } finally {
      this.#over(messages, turn)
    }
  }

  #begin(messages: readonly DeliveredMessage[]): Turn {
    const turn = this.#deadline.next()
    for (const message of messages) this.#begun.add(message)
    this.#running = messages
    this.#meterBegun(messages, turn)
    return turn
  }

  #over(messages: readonly DeliveredMessage[], turn: Turn): void {
    this.#running = []
    if (turn.tookMs > this.#options.plan.timeoutMs + HUNG_MS) this.#hung = messages
  }

  #numberOf(messages: readonly DeliveredMessage[]): number | undefined {
    return this.#options.work.kind === 'each' ? messages[0]?.attempt : undefined
  }

  #end(turn: Turn): void {
    if (turn.end()) this.#options.meter?.handled(turn.startedAtMs, turn.endedAtMs)
  }

  #meterBegun(messages: readonly DeliveredMessage[], { startedAtMs }: Turn): void {
    const { clock, meter } = this.#options
    if (meter === undefined || clock === undefined) return
    for (const { row } of messages) meter.begun(row.dueUs, clock, startedAtMs)
  }

  #isUndone([outcome]: readonly Outcome[]): boolean {
    return this.#options.work.kind === 'each' && (outcome?.kind === 'retry' || outcome?.kind === 'deadLetter')
  }

  #settleEach(messages: readonly DeliveredMessage[], outcomes: readonly Outcome[]): void {
    for (const [at, message] of messages.entries()) this.#settle(message, outcomes[at] ?? ACK)
  }

  async #failed(messages: readonly DeliveredMessage[], attempt: Attempt, error: unknown): Promise<boolean> {
    const { cancel, plan, report } = this.#options
    attempt.close()
    if (attempt.lost !== undefined) throw attempt.lost
    if (attempt.busy) await cancel()
    await attempt.undo()
    if (attempt.committed) {
      for (const message of messages) this.#settle(message, ACK, error)
      if (!this.#isLeft(error)) this.#tellIgnored(messages, error)
      return true
    }
    if (this.#isLeft(error)) return true
    if (messages.length > 1 && !isSluiceError(error, 'HANDLER_TIMEOUT')) {
      const event = {
        kind: 'batch.failed',
        queue: plan.queue,
        messages: messages.length,
        error: errorText(error),
      } as const
      report(withCause({ ...event }, error))
      return false
    }
    for (const message of messages) this.#settle(message, { kind: 'retry', error: errorText(error) }, error)
    return true
  }

  #tellIgnored(messages: readonly DeliveredMessage[], thrown: unknown): void {
    const { plan, report } = this.#options
    const { queue } = plan
    const error = errorText(thrown)
    for (const { id, row, attempt } of messages) {
      report(withCause({ kind: 'outcome.ignored', queue, id, type: row.type, attempt, error }, thrown))
    }
  }

  /** Whether a message stays as it was: the batch ends early. A STOPPED of anybody else is an error like others. */
  #isLeft(error: unknown): boolean {
    return isSluiceError(error, 'STOPPED') && (this.#options.signal.aborted || error instanceof NotHandled)
  }

  #settle(message: DeliveredMessage, outcome: Outcome, error?: unknown): void {
    this.#begun.add(message)
    const isCancelled = this.#cancelled?.has(message.id) && (outcome.kind === 'retry' || outcome.kind === 'snooze')
    if (error !== undefined && outcome.kind === 'retry' && !isCancelled) this.#options.onFailed?.(error, message.handed)
    const holdsBack = isCancelled
      ? this.#options.settlement.cancel(message)
      : this.#options.settlement.add(message, outcome, error)
    if (holdsBack) this.#block(message)
  }

  #block(message: DeliveredMessage): void {
    const { plan, slotOf } = this.#options
    // All messages of a queue that is ordered as a whole have one key.
    const rest = isOrdered(plan) ? '' : undefined
    this.#blockedKeys ??= new BlockedKeys(slotOf ?? (({ orderingKey }) => orderingKey ?? rest))
    this.#blockedKeys.add(message)
  }
}
