import { errorText, isSluiceError } from '../errors.ts'
import type { Message, Outcome } from '../message.ts'
import { type QueueDefinition, validatePayload } from '../queues.ts'
import type { BatchConnection } from './batch-connection.ts'
import type { DeliveredMessage } from './delivered-message.ts'
import { Deadline, toOutcome, toOutcomes } from './handler.ts'
import type { Crashes } from './in-hand.ts'
import { type HandlerTransaction, MessageTransaction } from './message-transaction.ts'
import type { PipelinePlan } from './options.ts'
import type { Settlement } from './settlement.ts'

/** What a batch's handlers get from the pipeline, without the types of the user's queues. */
export interface RunContext {
  readonly tx: HandlerTransaction
  readonly signal: AbortSignal
}

/** One message or a whole batch per call. */
export type Work =
  | { readonly kind: 'each'; readonly handle: (message: Message, context: RunContext) => unknown }
  | { readonly kind: 'batch'; readonly handle: (messages: readonly Message[], context: RunContext) => unknown }

export interface BatchRunOptions {
  readonly plan: PipelinePlan
  readonly work: Work
  readonly definition: QueueDefinition | undefined
  readonly connection: BatchConnection
  readonly settlement: Settlement
  readonly crashLimit: number
  /** Crash evidence against messages of this batch: then they run one by one, each recorded alone. */
  readonly crashes: Crashes
  readonly recordAlone: (message: DeliveredMessage) => Promise<void>
  /** Interrupts a statement that runs on the server. */
  readonly cancel: () => Promise<void>
  /** Aborts when nothing can come of the batch any more. */
  readonly signal: AbortSignal
}

/** By how much a deadline may be late on a busy machine. Less than the server's grace. */
const HUNG_MS = 500

/**
 * Runs the handlers of one batch, one after another on its connection, and adds what becomes of each message to the
 * settlement. Messages that it does not reach (the time is up, an earlier one of their key failed, the pipeline stops)
 * are left as they were.
 */
export class BatchRun {
  readonly #options: BatchRunOptions
  readonly #blockedKeys = new Set<string>()
  readonly #startedAt = performance.now()
  #hung: readonly DeliveredMessage[] = []

  constructor(options: BatchRunOptions) {
    this.#options = options
  }

  /**
   * Whose handler held the process so long that even its deadline came late: if the transaction is lost, the server
   * has ended it because of these. How the connection broke does not tell: often a write fails before the server's
   * own words are read.
   */
  get hung(): readonly DeliveredMessage[] {
    return this.#hung
  }

  async run(messages: readonly DeliveredMessage[]): Promise<void> {
    const { work, crashes, recordAlone } = this.#options
    if (work.kind === 'batch' && crashes.size === 0) return this.#runTogether(messages)
    for (const message of messages) {
      if (!this.#reaches(message)) continue
      if (crashes.size > 0) await recordAlone(message)
      if (await this.#mayRun(message)) await this.#runAlone(message)
    }
  }

  /** Whether there is time for the message, and no earlier one of its key has failed. */
  #reaches(message: DeliveredMessage): boolean {
    const { plan, signal } = this.#options
    return !signal.aborted && !this.#blocked(message) && performance.now() - this.#startedAt < plan.timeoutMs
  }

  /** Buries messages that killed their process too often, or whose payload no longer fits its schema. */
  async #mayRun(message: DeliveredMessage): Promise<boolean> {
    const { crashes, crashLimit, definition, plan, settlement, signal } = this.#options
    const evidence = crashes.get(message.id)
    if (evidence?.alone && evidence.crashes >= crashLimit) {
      settlement.condemn(message, `crashed: ${evidence.crashes} processes died or hung with this message in hand`)
      return false
    }
    if (definition?.schema === undefined) return true
    try {
      const checked = await new Deadline(plan.timeoutMs, signal).await(validatePayload(definition, message.payload))
      if ('value' in checked) {
        message.accept(checked.value)
        return true
      }
      const error = errorText(checked.issues)
      this.#settle(message, { kind: 'deadLetter', reason: 'the payload does not fit its schema', error })
    } catch (error) {
      if (!isSluiceError(error, 'STOPPED')) this.#settle(message, { kind: 'retry', error: errorText(error) }, error)
    }
    return false
  }

  async #runAlone(message: DeliveredMessage): Promise<void> {
    const { work } = this.#options
    await this.#attempt([message], async (context) =>
      work.kind === 'each'
        ? [toOutcome(await work.handle(message, context))]
        : toOutcomes(await work.handle([message], context), 1),
    )
  }

  /** A whole batch in one call; if it throws, each of its messages in a call of its own. */
  async #runTogether(messages: readonly DeliveredMessage[]): Promise<void> {
    const { work } = this.#options
    const fit: DeliveredMessage[] = []
    for (const message of messages) if (this.#reaches(message) && (await this.#mayRun(message))) fit.push(message)
    if (fit.length === 0 || work.kind !== 'batch') return
    const done = await this.#attempt(fit, async (context) => toOutcomes(await work.handle(fit, context), fit.length))
    if (done) return
    for (const message of fit) if (this.#reaches(message)) await this.#runAlone(message)
  }

  /**
   * Calls the handler once. Returns false if it failed for several messages at once, so that none is to blame yet.
   * Throws only if the batch's connection is of no more use.
   */
  async #attempt(
    messages: readonly DeliveredMessage[],
    call: (context: RunContext) => Promise<readonly Outcome[]>,
  ): Promise<boolean> {
    const { plan, signal, work } = this.#options
    const tx = new MessageTransaction(this.#options.connection)
    const deadline = new Deadline(plan.timeoutMs, signal)
    const context = {
      tx,
      get signal() {
        return deadline.signal
      },
    }
    const startedAt = performance.now()
    try {
      const outcomes = await deadline.await(answered(call(context), tx))
      const undone = work.kind === 'each' && (outcomes[0]?.kind === 'retry' || outcomes[0]?.kind === 'deadLetter')
      await (undone ? tx.undo() : tx.keep())
      for (const [at, message] of messages.entries()) this.#settle(message, outcomes[at] ?? { kind: 'ack' })
      return true
    } catch (error) {
      return await this.#failed(messages, tx, error)
    } finally {
      if (performance.now() - startedAt > plan.timeoutMs + HUNG_MS) this.#hung = messages
    }
  }

  async #failed(messages: readonly DeliveredMessage[], tx: MessageTransaction, error: unknown): Promise<boolean> {
    const { connection, cancel } = this.#options
    tx.close()
    if (connection.lost !== undefined) throw connection.lost
    if (tx.busy) await cancel()
    await tx.undo()
    if (isSluiceError(error, 'STOPPED')) return true
    if (messages.length > 1 && !isSluiceError(error, 'HANDLER_TIMEOUT')) return false
    for (const message of messages) this.#settle(message, { kind: 'retry', error: errorText(error) }, error)
    return true
  }

  #settle(message: DeliveredMessage, outcome: Outcome, error?: unknown): void {
    const holdsBack = this.#options.settlement.add(message, outcome, error)
    const key = this.#keyOf(message)
    if (holdsBack && key !== undefined) this.#blockedKeys.add(key)
  }

  #blocked(message: DeliveredMessage): boolean {
    const key = this.#keyOf(message)
    return key !== undefined && this.#blockedKeys.has(key)
  }

  #keyOf(message: DeliveredMessage): string | undefined {
    return message.orderingKey ?? (this.#options.plan.ordered ? '' : undefined)
  }
}

/** What the handler returned, once its statements are answered: those that it has not awaited count as its time. */
async function answered<T>(handled: Promise<T>, tx: MessageTransaction): Promise<T> {
  const result = await handled
  await tx.closed()
  return result
}
