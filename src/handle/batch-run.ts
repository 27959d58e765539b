import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { hasExpired } from '../claim/has-expired.ts'
import { messageCancelled } from '../errors.ts'
import type { QueueDefinition } from '../queues.ts'
import { acceptPayload, refusalOf } from './admit.ts'
import type { BatchToRun } from './batch-to-run.ts'
import { type Called, Caller, CallFailed } from './call.ts'
import type { Consumption, HandlerRuntime } from './consumption.ts'
import { Deadline } from './deadline.ts'
import { Results } from './results.ts'

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
  readonly #results: Results
  readonly #startedAt = performance.now()

  constructor(runtime: HandlerRuntime, consumption: Consumption, batch: BatchToRun) {
    const { plan, handler } = consumption
    this.#runtime = runtime
    this.#consumption = consumption
    this.#batch = batch
    this.#definition = runtime.definitionOf(plan)
    const late = handler.kind === 'each' ? (handler.late ?? 'handler') : 'handler'
    this.#deadline = new Deadline(plan.timeoutMs, late, batch.signal)
    this.#caller = new Caller(consumption, batch, this.#deadline)
    this.#results = new Results(runtime, consumption, batch)
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
    return this.#results.begun
  }

  /**
   * A message has been cancelled. If its handler runs, alone, its signal aborts, and what it has written is undone; if it has
   * not begun, it does not. If it runs in a batch, it is removed unless it succeeds.
   */
  cancel(id: string): void {
    this.#results.cancel(id)
    const [running, ...others] = this.#caller.running
    if (running?.id === id && others.length === 0) this.#deadline.abort(messageCancelled(running.queue, id))
  }

  async run(messages: readonly DeliveredMessage[]): Promise<void> {
    try {
      await (this.#consumption.handler.kind === 'batch' ? this.#runTogether(messages) : this.#runOneByOne(messages))
    } finally {
      this.end()
    }
  }

  /** It handles no more messages. */
  end(): void {
    this.#deadline.end()
  }

  async #runOneByOne(messages: readonly DeliveredMessage[]): Promise<void> {
    for (const message of messages) {
      const running = this.handle(message)
      if (running !== undefined) await running
    }
  }

  /** Handles one message, for those before it have ended. Undefined: this one has ended too, without a wait. */
  handle(message: DeliveredMessage): Promise<void> | undefined {
    if (!this.#reaches(message)) return undefined
    return this.#mayBeRefused(message) ? this.#admitAndCall(message) : this.#callAlone(message)
  }

  async #admitAndCall(message: DeliveredMessage): Promise<void> {
    if (await this.#admits(message)) await this.#callAlone(message)
  }

  #callAlone(message: DeliveredMessage): Promise<void> | undefined {
    const alone = [message]
    const called = this.#call(alone)
    if (called instanceof Promise) return called.then((answer) => void this.#results.add(alone, answer))
    this.#results.add(alone, called)
    return undefined
  }

  /** A whole batch in one call; if it throws, each of its messages in a call of its own. */
  async #runTogether(messages: readonly DeliveredMessage[]): Promise<void> {
    const fit: DeliveredMessage[] = []
    for (const message of messages) {
      if (this.#reaches(message) && (!this.#mayBeRefused(message) || (await this.#admits(message)))) fit.push(message)
    }
    if (fit.length === 0 || this.#results.add(fit, await this.#call(fit))) return
    // The handler may have changed what it was given.
    for (const message of fit) message.renew()
    await this.#runOneByOne(fit)
  }

  /** Whether there is time for the message, and no earlier one of its key has failed. */
  #reaches(message: DeliveredMessage): boolean {
    return !this.#batch.signal.aborted && !this.#results.blocks(message) && this.#hasTime
  }

  /** A lease is renewed for as long as its message waits; the server ends a batch's transaction. */
  get #hasTime(): boolean {
    const { mode, timeoutMs } = this.#consumption.plan
    return mode === 'leased' || performance.now() - this.#startedAt < timeoutMs
  }

  /** Whether the message may have to end before its handler sees it. */
  #mayBeRefused(message: DeliveredMessage): boolean {
    if (this.#results.isCancelled(message) || message.evidence !== undefined) return true
    return this.#definition?.schema !== undefined || hasExpired(message.row, this.#batch.clock?.nowUs)
  }

  /** Ends messages that no handler is to see. */
  async #admits(message: DeliveredMessage): Promise<boolean> {
    const isCancelled = this.#results.isCancelled(message)
    const { crashLimit } = this.#runtime
    const refusal = refusalOf(message, { isCancelled, clock: this.#batch.clock, crashLimit })
    if (refusal !== undefined) {
      this.#results.refuse(message, refusal)
      return false
    }
    try {
      await acceptPayload(message, this.#definition, this.#deadline)
      return true
    } catch (error) {
      this.#results.add([message], new CallFailed(error, false))
    }
    return false
  }

  #call(messages: readonly DeliveredMessage[]): Called | Promise<Called> {
    this.#results.begin(messages)
    return this.#caller.call(messages)
  }
}
