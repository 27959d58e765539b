import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { hasExpired } from '../claim/has-expired.ts'
import { errorText, isSluiceError, messageCancelled } from '../errors.ts'
import type { Outcome } from '../message.ts'
import { isOrdered } from '../plan/options.ts'
import type { QueueDefinition } from '../queues.ts'
import { withCause } from '../telemetry/events.ts'
import { fitSchema, type Refusal, refusalOf } from './admit.ts'
import type { BatchToRun } from './batch-to-run.ts'
import { BlockedKeys } from './blocked-keys.ts'
import { type Called, Caller, CallFailed } from './call.ts'
import type { Consumption, HandlerRuntime } from './consumption.ts'
import { Deadline } from './deadline.ts'
import { NotHandled } from './handler.ts'
import { ACK } from './to-outcome.ts'

/**
 * Runs the handlers of one batch, one after another on its connection, and adds what becomes of each message to the
 * settlement. Messages that it does not reach (the time is up, an earlier one of their key failed, the pipeline stops)
 * are left as they were.
 */
export class BatchRun {
  readonly #runtime: HandlerRuntime
  readonly #consumption: Consumption
  readonly #batch: BatchToRun
  readonly #definition: QueueDefinition | undefined
  readonly #deadline: Deadline
  readonly #caller: Caller
  /** Made for the first of them: in most batches nothing fails. */
  #blockedKeys: BlockedKeys | undefined
  readonly #startedAt = performance.now()
  readonly #begun = new Set<DeliveredMessage>()
  /** The ids of cancelled messages. */
  #cancelled: Set<string> | undefined

  constructor(runtime: HandlerRuntime, consumption: Consumption, batch: BatchToRun) {
    const { plan, handler } = consumption
    this.#runtime = runtime
    this.#consumption = consumption
    this.#batch = batch
    this.#definition = runtime.definitionOf(plan)
    const late = handler.kind === 'each' ? (handler.late ?? 'handler') : 'handler'
    this.#deadline = new Deadline(plan.timeoutMs, late, batch.signal)
    this.#caller = new Caller(consumption, batch, this.#deadline)
  }

  /**
   * Messages whose handler held the process so long that even its deadline came late: if the transaction is lost, the
   * server has ended it because of these. How the connection broke does not tell: often a write fails before the server's
   * own words are read.
   */
  get hung(): readonly DeliveredMessage[] {
    return this.#caller.hung
  }

  /** Messages whose handlers have been called, or for which something is to be written without that. */
  get begun(): readonly DeliveredMessage[] {
    return [...this.#begun]
  }

  /**
   * A message has been cancelled. If its handler runs, alone, its signal aborts, and what it has written is undone; if it has
   * not begun, it does not. If it runs in a batch, it is removed unless it succeeds.
   */
  cancel(id: string): void {
    this.#cancelled ??= new Set()
    this.#cancelled.add(id)
    const [running, ...others] = this.#caller.running
    if (running?.id === id && others.length === 0) this.#deadline.abort(messageCancelled(running.queue, id))
  }

  async run(messages: readonly DeliveredMessage[]): Promise<void> {
    try {
      await (this.#consumption.handler.kind === 'batch' ? this.#runTogether(messages) : this.#runOneByOne(messages))
    } finally {
      this.#deadline.end()
    }
  }

  async #runOneByOne(messages: readonly DeliveredMessage[]): Promise<void> {
    for (const message of messages) {
      if (!this.#reaches(message)) continue
      if (this.#mayBeRefused(message) && !(await this.#admits(message))) continue
      const alone = [message]
      const called = this.#call(alone)
      this.#ended(alone, called instanceof Promise ? await called : called)
    }
  }

  /** A whole batch in one call; if it throws, each of its messages in a call of its own. */
  async #runTogether(messages: readonly DeliveredMessage[]): Promise<void> {
    const fit: DeliveredMessage[] = []
    for (const message of messages) {
      if (this.#reaches(message) && (!this.#mayBeRefused(message) || (await this.#admits(message)))) fit.push(message)
    }
    if (fit.length === 0 || this.#ended(fit, await this.#call(fit))) return
    // The handler may have changed what it was given.
    for (const message of fit) message.renew()
    await this.#runOneByOne(fit)
  }

  /** Whether there is time for the message, and no earlier one of its key has failed. */
  #reaches(message: DeliveredMessage): boolean {
    return !this.#batch.signal.aborted && !this.#blockedKeys?.has(message) && this.#hasTime
  }

  /** A lease is renewed for as long as its message waits; the server ends a batch's transaction. */
  get #hasTime(): boolean {
    const { mode, timeoutMs } = this.#consumption.plan
    return mode === 'leased' || performance.now() - this.#startedAt < timeoutMs
  }

  /** Whether a message may have to die before its handler sees it. */
  #mayBeRefused(message: DeliveredMessage): boolean {
    if (this.#cancelled?.has(message.id) || message.evidence !== undefined) return true
    return this.#definition?.schema !== undefined || hasExpired(message.row, this.#batch.clock?.nowUs)
  }

  /** Ends messages that no handler is to see. */
  async #admits(message: DeliveredMessage): Promise<boolean> {
    const isCancelled = this.#cancelled?.has(message.id) === true
    const { crashLimit } = this.#runtime
    const refusal = refusalOf(message, { isCancelled, clock: this.#batch.clock, crashLimit })
    if (refusal !== undefined) {
      this.#refuse(message, refusal)
      return false
    }
    if (this.#definition?.schema === undefined) return true
    try {
      this.#deadline.next()
      await this.#deadline.await(fitSchema(message, this.#definition))
      return true
    } catch (error) {
      if (!this.#isLeft(error)) this.#retry(message, error)
    }
    return false
  }

  #refuse(message: DeliveredMessage, refusal: Refusal): void {
    const { settlement, slotOf } = this.#batch
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
        if (slotOf !== undefined) this.#block(message)
        return
      case 'lost try':
        this.#settle(message, { kind: 'retry', error: refusal.error }, new Error(refusal.error))
    }
  }

  #call(messages: readonly DeliveredMessage[]): Called | Promise<Called> {
    for (const message of messages) this.#begun.add(message)
    return this.#caller.call(messages)
  }

  /** False: the call failed for several messages at once, so that none is to blame yet. */
  #ended(messages: readonly DeliveredMessage[], called: Called): boolean {
    if (!(called instanceof CallFailed)) {
      for (const [at, message] of messages.entries()) this.#settle(message, called[at] ?? ACK)
      return true
    }
    const { error } = called
    if (called.committed) {
      for (const message of messages) this.#settle(message, ACK, error)
      if (!this.#isLeft(error)) this.#reportIgnored(messages, error)
    } else if (!this.#isLeft(error)) {
      const nobodyIsToBlame = messages.length > 1 && !isSluiceError(error, 'HANDLER_TIMEOUT')
      if (nobodyIsToBlame) {
        this.#reportFailed(messages, error)
        return false
      }
      for (const message of messages) this.#retry(message, error)
    }
    return true
  }

  #reportFailed(messages: readonly DeliveredMessage[], thrown: unknown): void {
    const { queue } = this.#consumption.plan
    const event = { kind: 'batch.failed', queue, messages: messages.length, error: errorText(thrown) } as const
    this.#runtime.report(withCause({ ...event }, thrown))
  }

  #reportIgnored(messages: readonly DeliveredMessage[], thrown: unknown): void {
    const { queue } = this.#consumption.plan
    const error = errorText(thrown)
    for (const { id, row, attempt } of messages) {
      const event = { kind: 'outcome.ignored', queue, id, type: row.type, attempt, error } as const
      this.#runtime.report(withCause({ ...event }, thrown))
    }
  }

  /** Whether a message stays as it was: the batch ends early. A STOPPED of anybody else is an error like others. */
  #isLeft(error: unknown): boolean {
    return isSluiceError(error, 'STOPPED') && (this.#batch.signal.aborted || error instanceof NotHandled)
  }

  #retry(message: DeliveredMessage, error: unknown): void {
    this.#settle(message, { kind: 'retry', error: errorText(error) }, error)
  }

  #settle(message: DeliveredMessage, outcome: Outcome, error?: unknown): void {
    const { settlement } = this.#batch
    this.#begun.add(message)
    const isCancelled = this.#cancelled?.has(message.id) && (outcome.kind === 'retry' || outcome.kind === 'snooze')
    if (error !== undefined && outcome.kind === 'retry' && !isCancelled)
      this.#consumption.onFailed?.(error, message.handed)
    const holdsBack = isCancelled ? settlement.cancel(message) : settlement.add(message, outcome, error)
    if (holdsBack) this.#block(message)
  }

  #block(message: DeliveredMessage): void {
    // All messages of a queue that is ordered as a whole have one key.
    const rest = isOrdered(this.#consumption.plan) ? '' : undefined
    this.#blockedKeys ??= new BlockedKeys(this.#batch.slotOf ?? (({ orderingKey }) => orderingKey ?? rest))
    this.#blockedKeys.add(message)
  }
}
