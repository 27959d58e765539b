import type { Gate } from '../../basics/gate.ts'
import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import { stopped, toError } from '../../errors.ts'
import { BatchRun } from '../../handle/batch-run.ts'
import type { Consumption } from '../../handle/consumption.ts'
import { type Ending, SingleEnding } from '../../handle/ending.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import type { ClaimClock } from '../../statistics/meter.ts'
import type { Runtime } from '../runtime.ts'
import { LeasedAttempt } from './leased-attempt.ts'
import type { LeasedMessage } from './leased-message.ts'
import type { Settler } from './settle/settler.ts'

/**
 * Messages that one claim has leased. Their handlers run side by side. A handler of batches gets all of them, but for those
 * with evidence, each of which it gets alone.
 */
export class LeasedBatch {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<LeasedPlan>
  readonly #settler: Settler
  readonly #gate: Gate
  readonly #messages: readonly LeasedMessage[]
  readonly #clock: ClaimClock
  readonly #settled = new Set<LeasedMessage>()
  /** Of the calls that run. */
  readonly #endings = new Set<SingleEnding>()
  readonly #byMessage: ReadonlyMap<DeliveredMessage, LeasedMessage>

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
    this.#gate = transactions
    this.#messages = messages
    this.#clock = clock
    this.#byMessage = new Map(messages.map((leased) => [leased.message, leased]))
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
      for (const leased of group) if (!this.#settled.has(leased)) this.#settler.giveBack(leased)
    }
  }

  #runOf(signal: Ending): BatchRun {
    const { plan } = this.#consumption
    const { enqueue } = this.#runtime
    const leasedOf = (message: DeliveredMessage): LeasedMessage => {
      const leased = this.#byMessage.get(message)
      if (leased === undefined) throw new TypeError('expected a message of this batch')
      return leased
    }
    const settled = (message: DeliveredMessage): LeasedMessage => {
      const leased = leasedOf(message)
      this.#settled.add(leased)
      return leased
    }
    const options = { runtime: this.#runtime, queue: plan.queue, enqueue, gate: this.#gate, renew: this.#settler.renew }
    return new BatchRun(this.#runtime, this.#consumption, {
      settlement: {
        add: (message, outcome, error) => this.#settler.settle(settled(message), outcome, error),
        deadLetter: (message, reason) => this.#settler.deadLetter(settled(message), reason),
        expire: (message) => this.#settler.expire(settled(message)),
        cancel: (message) => this.#settler.cancel(settled(message)),
      },
      attempt: (messages) => new LeasedAttempt(options, messages.map(leasedOf)),
      signal,
      clock: this.#clock,
      cancel: async () => undefined,
    })
  }
}
