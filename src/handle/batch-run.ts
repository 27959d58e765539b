import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { hasExpired } from '../claim/has-expired.ts'
import { messageCancelled } from '../errors.ts'
import type { QueueDefinition } from '../queues.ts'
import { acceptPayload, refusalOf } from './admit.ts'
import type { BatchToRun } from './batch-to-run.ts'
import { type Called, CallFailed } from './call.ts'
import { Caller } from './caller.ts'
import type { Consumption, HandlerRuntime } from './consumption.ts'
import type { Deadline } from './deadline.ts'
import { Deadlines } from './deadlines.ts'
import { type Heard, HeardLater } from './heard.ts'
import { Inside, leaveInside, runInside } from './inside.ts'
import { Results } from './results.ts'

/**
 * Runs the handlers of one batch, and adds what becomes of each message to the settlement. Those with one deadline run one
 * after another. Messages that it does not reach (the time is up, an earlier one of their key failed, the pipeline
 * stops) are left as they were.
 */
export class BatchRun {
  readonly #runtime: HandlerRuntime
  readonly #consumption: Consumption
  readonly #batch: BatchToRun
  readonly #definition: QueueDefinition | undefined
  readonly #caller: Caller
  readonly #results: Results
  readonly #deadlines: Deadlines
  readonly #startedAt = performance.now()

  constructor(runtime: HandlerRuntime, consumption: Consumption, batch: BatchToRun) {
    this.#runtime = runtime
    this.#consumption = consumption
    this.#batch = batch
    this.#definition = consumption.outlet === undefined ? runtime.definitionOf(consumption.plan) : undefined
    this.#caller = new Caller(consumption, batch, runtime.instruments)
    this.#results = new Results(runtime, consumption, batch)
    const { plan, handler } = consumption
    const late = handler.kind === 'each' ? (handler.late ?? 'handler') : 'handler'
    this.#deadlines = new Deadlines(plan.timeoutMs, late)
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

  /** For handlers that run one after another. */
  deadline(): Deadline {
    return this.#deadlines.next()
  }

  /** Nothing can come of the batch any more. */
  stop(reason: unknown): void {
    this.#deadlines.stop(reason)
  }

  /**
   * A message has been cancelled. If its handler runs, alone, its signal aborts, and what it has written is undone; if it has
   * not begun, it does not. If it runs in a batch, it is removed unless it succeeds.
   */
  cancel(id: string, deadline: Deadline): void {
    this.#results.cancel(id)
    const [running, ...others] = deadline.running
    if (running?.id === id && others.length === 0) deadline.abort(messageCancelled(running.queue, id))
  }

  async run(messages: readonly DeliveredMessage[], deadline: Deadline): Promise<void> {
    try {
      await runInside(this.#insideOf(deadline), () =>
        this.#isTogether ? this.#runTogether(messages, deadline) : this.#runOneByOne(messages, deadline),
      )
    } finally {
      deadline.end()
    }
  }

  /**
   * What a relay has published cannot be undone: where a whole partition waits for an event that has failed, the later ones may
   * not go before it is known.
   */
  get #isTogether(): boolean {
    const { handler, outlet } = this.#consumption
    return handler.kind === 'batch' && (outlet === undefined || this.#batch.partitionOf === undefined)
  }

  async #runOneByOne(messages: readonly DeliveredMessage[], deadline: Deadline): Promise<void> {
    let heard = new HeardLater<Called | undefined>()
    for (const message of messages) {
      if (!this.handle(message, deadline, heard)) continue
      this.add([message], await heard.result)
      leaveInside()
      heard = new HeardLater()
    }
  }

  /**
   * Handles one message, for those before it have ended. Returns whether it waits.
   *
   * @param heard then gets what the call has come to, for {@link add}
   */
  handle(message: DeliveredMessage, deadline: Deadline, heard: Heard<Called | undefined>): boolean {
    if (!this.#reaches(message, deadline)) return false
    if (this.#mayBeRefused(message)) {
      void this.#admitAndCall(message, deadline, heard)
      return true
    }
    const alone = [message]
    const called = this.#call(alone, deadline, heard)
    if (called === undefined) return true
    this.#results.add(alone, called)
    return false
  }

  /** As {@link handle}, for a handler that runs beside others. */
  handleBeside(message: DeliveredMessage, deadline: Deadline, heard: Heard<Called | undefined>): boolean {
    const inside = this.#insideOf(deadline)
    const waits = runInside(inside, () => this.handle(message, deadline, heard))
    // Its deadline goes to the next handler.
    if (!waits) inside.leave()
    return waits
  }

  #insideOf(deadline: Deadline): Inside {
    const { meter, calledIn } = this.#consumption
    return new Inside(meter, deadline, calledIn)
  }

  /** A call is over. @param called undefined: there was none, and the message is settled */
  add(messages: readonly DeliveredMessage[], called: Called | undefined): void {
    if (called !== undefined) this.#results.add(messages, called)
  }

  async #admitAndCall(message: DeliveredMessage, deadline: Deadline, heard: Heard<Called | undefined>): Promise<void> {
    try {
      if (!(await this.#admits(message, deadline))) return heard.answered(undefined)
      const called = this.#call([message], deadline, heard)
      if (called !== undefined) heard.answered(called)
    } catch (error) {
      heard.failed(error)
    }
  }

  /** A whole batch in one call; if it throws, each of its messages in a call of its own. */
  async #runTogether(messages: readonly DeliveredMessage[], deadline: Deadline): Promise<void> {
    const fit: DeliveredMessage[] = []
    for (const message of messages) {
      if (!this.#reaches(message, deadline)) continue
      if (!this.#mayBeRefused(message) || (await this.#admits(message, deadline))) fit.push(message)
    }
    if (fit.length === 0) return
    const heard = new HeardLater<Called>()
    const called = this.#call(fit, deadline, heard) ?? (await heard.result)
    if (this.#results.add(fit, called)) return
    // The handler may have changed what it was given.
    for (const message of fit) message.reset()
    leaveInside()
    await this.#runOneByOne(fit, deadline)
  }

  /** Whether there is time for the message, and no earlier one of its key has failed. */
  #reaches(message: DeliveredMessage, deadline: Deadline): boolean {
    return !deadline.isOver && !this.#results.blocks(message) && this.#hasTime
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
  async #admits(message: DeliveredMessage, deadline: Deadline): Promise<boolean> {
    const isCancelled = this.#results.isCancelled(message)
    const { crashLimit } = this.#runtime
    const refusal = refusalOf(message, { isCancelled, clock: this.#batch.clock, crashLimit })
    if (refusal !== undefined) {
      this.#results.refuse(message, refusal)
      return false
    }
    try {
      await acceptPayload(message, this.#definition, deadline)
    } catch (error) {
      this.#results.add([message], new CallFailed(error, { committed: false, isOver: deadline.isOver }))
      return false
    }
    // While its schema was waited for.
    if (!this.#results.isCancelled(message)) return true
    this.#results.refuse(message, { kind: 'cancelled' })
    return false
  }

  #call(messages: readonly DeliveredMessage[], deadline: Deadline, heard: Heard<Called>): Called | undefined {
    this.#results.begin(messages)
    return this.#caller.call(messages, deadline, heard)
  }
}
