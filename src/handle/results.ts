import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { errorText, isSluiceError } from '../errors.ts'
import type { Outcome } from '../message.ts'
import { OUTCOMES } from '../outcomes.ts'
import { isOrdered } from '../plan/options.ts'
import { ACK, decide, decideDropped, decideHarmful } from '../settle/decide.ts'
import { type Decided, holdsBack } from '../settle/decision.ts'
import { withCause } from '../telemetry/events.ts'
import type { Refusal } from './admit.ts'
import type { BatchToRun } from './batch-to-run.ts'
import { BlockedKeys } from './blocked-keys.ts'
import { type Called, CallFailed } from './call.ts'
import type { Consumption, HandlerRuntime } from './consumption.ts'
import { NotHandled } from './handler.ts'
import type { Release } from './release.ts'

/** Decides what becomes of the messages of a batch, which may block later messages of a key. */
export class Results {
  readonly #runtime: HandlerRuntime
  readonly #consumption: Consumption
  readonly #batch: BatchToRun
  readonly #begun = new Set<DeliveredMessage>()
  /** The ids of cancelled messages. */
  #cancelled: Set<string> | undefined
  /** Made for the first of them: in most batches nothing fails. */
  #blockedKeys: BlockedKeys | undefined

  constructor(runtime: HandlerRuntime, consumption: Consumption, batch: BatchToRun) {
    this.#runtime = runtime
    this.#consumption = consumption
    this.#batch = batch
  }

  get begun(): readonly DeliveredMessage[] {
    return [...this.#begun]
  }

  /** Their handler is called. */
  begin(messages: readonly DeliveredMessage[]): void {
    for (const message of messages) this.#begun.add(message)
  }

  /** A message has been cancelled: it is removed unless it succeeds. */
  cancel(id: string): void {
    this.#cancelled ??= new Set()
    this.#cancelled.add(id)
  }

  isCancelled(message: DeliveredMessage): boolean {
    return this.#cancelled?.has(message.id) === true
  }

  /** Whether an earlier message of its key has failed, or stays as it was. */
  blocks(message: DeliveredMessage): boolean {
    return this.#blockedKeys?.has(message) === true
  }

  /** Ends a message that no handler is to see. */
  refuse(message: DeliveredMessage, refusal: Refusal): void {
    const { decisions } = this.#batch
    this.#begun.add(message)
    switch (refusal.kind) {
      case 'cancelled':
      case 'expired':
        this.#put(decideDropped(message, refusal.kind, decisions.rules))
        return
      case 'harmful':
        this.#put(decideHarmful(message, refusal.reason, decisions.rules))
        return
      case 'lost try':
        this.#retry(message, new Error(refusal.error), refusal.error)
    }
  }

  /** False: the call failed for several messages at once, so that none is to blame yet. */
  add(messages: readonly DeliveredMessage[], called: Called): boolean {
    if (!(called instanceof CallFailed)) {
      for (const [at, message] of messages.entries()) this.#answer(message, called[at] ?? ACK)
      return true
    }
    const { error } = called
    const isLeft = this.#isLeft(called)
    if (called.committed) {
      for (const message of messages) this.#settle(message, ACK, error)
      if (!isLeft) this.#reportIgnored(messages, error)
    } else if (!isLeft) {
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

  /** Whether a message stays as it was: the batch ends early. A STOPPED that the handler itself threw is an error like others. */
  #isLeft({ error, isOver }: CallFailed): boolean {
    return isSluiceError(error, 'STOPPED') && (isOver || error instanceof NotHandled)
  }

  #retry(message: DeliveredMessage, thrown: unknown, error: string = errorText(thrown)): void {
    if (!this.isCancelled(message)) this.#consumption.onFailed?.(thrown, message.handed)
    this.#settle(message, { kind: 'retryLater', error }, thrown)
  }

  #answer(message: DeliveredMessage, outcome: Outcome | Release): void {
    if (outcome.kind !== 'release') this.#settle(message, outcome)
    else if (this.isCancelled(message)) this.refuse(message, { kind: 'cancelled' })
    else this.#block(message)
  }

  #settle(message: DeliveredMessage, outcome: Outcome, error?: unknown): void {
    const { rules } = this.#batch.decisions
    this.#begun.add(message)
    const isCancelled = this.isCancelled(message) && OUTCOMES[outcome.kind].stays
    this.#put(isCancelled ? decideDropped(message, 'cancelled', rules) : decide(message, outcome, error, rules))
  }

  #put(decided: Decided): void {
    this.#batch.decisions.put(decided)
    if (holdsBack(decided)) this.#block(decided.message)
  }

  #block(message: DeliveredMessage): void {
    // A queue that is ordered as a whole uses a single key.
    const rest = isOrdered(this.#consumption.plan) ? '' : undefined
    this.#blockedKeys ??= new BlockedKeys(this.#batch.partitionOf ?? (({ orderingKey }) => orderingKey ?? rest))
    this.#blockedKeys.add(message)
  }
}
