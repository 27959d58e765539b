import type { Gate } from '../../basics/gate.ts'
import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import { stopped, toError } from '../../errors.ts'
import { BatchRun } from '../../handle/batch-run.ts'
import type { Consumption } from '../../handle/consumption.ts'
import { type Ending, SingleEnding } from '../../handle/ending.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import type { Rules } from '../../settle/decide.ts'
import type { Decided } from '../../settle/decision.ts'
import type { Decisions } from '../../settle/settlement.ts'
import type { ClaimClock } from '../../statistics/meter.ts'
import type { Runtime } from '../runtime.ts'
import { LeasedAttempt, type LeasedAttemptOptions } from './leased-attempt.ts'
import type { LeasedMessage } from './leased-message.ts'
import type { Settler } from './settle/settler.ts'

/**
 * Messages that one claim has leased. Their handlers run side by side. A handler of batches gets all of them, but for those
 * with evidence, each of which it gets alone.
 */
export class LeasedBatch implements Decisions {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<LeasedPlan>
  readonly #settler: Settler
  readonly #attempts: LeasedAttemptOptions
  readonly #messages: readonly LeasedMessage[]
  readonly #clock: ClaimClock
  /** Of the calls that run. */
  readonly #endings = new Set<SingleEnding>()
  /** Those that nothing is decided about. */
  readonly #undecided: Map<DeliveredMessage, LeasedMessage>

  constructor(
    runtime: Runtime,
    consumption: Consumption<LeasedPlan>,
    settler: Settler,
    transactions: Gate,
    messages: readonly LeasedMessage[],
    clock: ClaimClock,
  ) {
    this.#runtime = runtime
    this.#consumption = consumption
    this.#settler = settler
    const { queue } = consumption.plan
    this.#attempts = { runtime, queue, enqueue: runtime.enqueue, gate: transactions, renew: settler.renew }
    this.#messages = messages
    this.#clock = clock
    this.#undecided = new Map(messages.map((leased) => [leased.message, leased]))
  }

  get rules(): Rules {
    return this.#settler.rules
  }

  put(decided: Decided): void {
    const leased = this.#leasedOf(decided.message)
    this.#undecided.delete(decided.message)
    this.#settler.settle(leased, decided)
  }

  /** Resolves when each has an outcome or is given back, written or not. @param stopping ends their handlers */
  async run(stopping: AbortSignal): Promise<void> {
    // One listener for all: each that is added or removed is looked for among those that are there.
    const stop = () => {
      for (const ending of this.#endings) ending.abort(stopped('pipeline'))
    }
    stopping.addEventListener('abort', stop)
    try {
      await Promise.all(this.#groups().map((group) => this.#runGroup(group, stopping)))
    } finally {
      stopping.removeEventListener('abort', stop)
    }
  }

  /** A claim takes one message of each key at most, so none of them waits for another. */
  #groups(): readonly (readonly LeasedMessage[])[] {
    const each = (messages: readonly LeasedMessage[]) => messages.map((leased) => [leased])
    if (this.#consumption.handler.kind === 'each') return each(this.#messages)
    const hasEvidence = ({ message }: LeasedMessage) => message.evidence !== undefined
    const others = this.#messages.filter((leased) => !hasEvidence(leased))
    return [...(others.length > 0 ? [others] : []), ...each(this.#messages.filter(hasEvidence))]
  }

  async #runGroup(group: readonly LeasedMessage[], stopping: AbortSignal): Promise<void> {
    const ending = new SingleEnding()
    this.#endings.add(ending)
    if (stopping.aborted) ending.abort(stopped('pipeline'))
    for (const leased of group) leased.whenLost((reason) => ending.abort(reason))
    try {
      const run = this.#runOf(ending)
      for (const leased of group) leased.whenCancelled(() => run.cancel(leased.id))
      await run.run(group.map(({ message }) => message))
    } catch (error) {
      // A lost lease or a stop is reported elsewhere.
      const { queue } = this.#consumption.plan
      if (!ending.aborted)
        this.#runtime.report({ kind: 'batch.released', queue, messages: group.length, error: toError(error) })
    } finally {
      this.#endings.delete(ending)
      for (const leased of group) if (this.#undecided.has(leased.message)) this.#settler.giveBack(leased)
    }
  }

  #runOf(signal: Ending): BatchRun {
    return new BatchRun(this.#runtime, this.#consumption, {
      decisions: this,
      attempt: (messages) =>
        new LeasedAttempt(
          this.#attempts,
          messages.map((message) => this.#leasedOf(message)),
        ),
      signal,
      clock: this.#clock,
      cancel: async () => undefined,
    })
  }

  #leasedOf(message: DeliveredMessage): LeasedMessage {
    const leased = this.#undecided.get(message)
    if (leased === undefined) throw new TypeError('expected a message of this batch that nothing is decided about')
    return leased
  }
}
