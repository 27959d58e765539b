import type { Gate } from '../../basics/gate.ts'
import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import { stopped, toError } from '../../errors.ts'
import { BatchRun } from '../../handle/batch-run.ts'
import type { Consumption } from '../../handle/consumption.ts'
import type { Deadline } from '../../handle/deadline.ts'
import { SingleEnding } from '../../handle/ending.ts'
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
  readonly #run: BatchRun
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
    this.#undecided = new Map(messages.map((leased) => [leased.message, leased]))
    this.#run = new BatchRun(runtime, consumption, {
      decisions: this,
      attempt: (called) =>
        new LeasedAttempt(
          this.#attempts,
          called.map((message) => this.#leasedOf(message)),
        ),
      clock,
      cancel: async () => undefined,
    })
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
      const { kind } = this.#consumption.handler
      await (kind === 'each' ? this.#runEach(stopping) : this.#runGroups(stopping))
    } finally {
      stopping.removeEventListener('abort', stop)
    }
  }

  /**
   * The handlers run side by side: a claim takes one message of each key at most, so none waits for another. A call that
   * answers at once leaves its deadline to the next message.
   */
  #runEach(stopping: AbortSignal): Promise<void> {
    const all = Promise.withResolvers<void>()
    let running = 1
    const over = () => {
      running -= 1
      if (running === 0) all.resolve()
    }
    let call = this.#newCall(stopping)
    for (const leased of this.#messages) {
      const started = this.#start(call, leased)
      if (started === undefined) continue
      running += 1
      this.#endAfter(started, call, [leased], over)
      call = this.#newCall(stopping)
    }
    this.#end(call, [])
    over()
    return all.promise
  }

  #endAfter(started: Promise<void>, call: LeasedCall, group: readonly LeasedMessage[], over: () => void): void {
    this.#listen(call, group)
    const end = () => {
      this.#end(call, group)
      over()
    }
    started.then(end, (error: unknown) => {
      this.#failed(call, group, error)
      end()
    })
  }

  /** Undefined: its handler has answered. */
  #start({ deadline }: LeasedCall, leased: LeasedMessage): Promise<void> | undefined {
    try {
      if (leased.isCancelled) this.#run.cancel(leased.id, deadline)
      const running = this.#run.handle(leased.message, deadline)
      if (running === undefined) this.#giveBackUndecided([leased])
      return running
    } catch (error) {
      return Promise.reject(toError(error))
    }
  }

  async #runGroups(stopping: AbortSignal): Promise<void> {
    const hasEvidence = ({ message }: LeasedMessage) => message.evidence !== undefined
    const others = this.#messages.filter((leased) => !hasEvidence(leased))
    const alone = this.#messages.filter(hasEvidence).map((leased) => [leased])
    const groups = [...(others.length > 0 ? [others] : []), ...alone]
    await Promise.all(groups.map((group) => this.#runGroup(this.#newCall(stopping), group)))
  }

  async #runGroup(call: LeasedCall, group: readonly LeasedMessage[]): Promise<void> {
    this.#listen(call, group)
    try {
      await this.#run.run(
        group.map(({ message }) => message),
        call.deadline,
      )
    } catch (error) {
      this.#failed(call, group, error)
    } finally {
      this.#end(call, group)
    }
  }

  /** It ends when the lease of one of its messages is lost. */
  #listen({ ending, deadline }: LeasedCall, group: readonly LeasedMessage[]): void {
    for (const leased of group) {
      leased.whenLost((reason) => ending.abort(reason))
      leased.whenCancelled(() => this.#run.cancel(leased.id, deadline))
    }
  }

  /** A lost lease or a stop is reported elsewhere. */
  #failed({ ending }: LeasedCall, group: readonly LeasedMessage[], error: unknown): void {
    if (ending.aborted) return
    const { queue } = this.#consumption.plan
    this.#runtime.report({ kind: 'batch.released', queue, messages: group.length, error: toError(error) })
  }

  #end({ ending, deadline }: LeasedCall, group: readonly LeasedMessage[]): void {
    deadline.end()
    this.#endings.delete(ending)
    this.#giveBackUndecided(group)
  }

  #giveBackUndecided(group: readonly LeasedMessage[]): void {
    for (const leased of group) if (this.#undecided.has(leased.message)) this.#settler.giveBack(leased)
  }

  #newCall(stopping: AbortSignal): LeasedCall {
    const ending = new SingleEnding()
    this.#endings.add(ending)
    if (stopping.aborted) ending.abort(stopped('pipeline'))
    return { ending, deadline: this.#run.deadline(ending) }
  }

  #leasedOf(message: DeliveredMessage): LeasedMessage {
    const leased = this.#undecided.get(message)
    if (leased === undefined) throw new TypeError('expected a message of this batch that nothing is decided about')
    return leased
  }
}

/** What ends a call of the handler, or several that follow each other. */
interface LeasedCall {
  /** A lease is lost, or the pipeline stops. */
  readonly ending: SingleEnding
  readonly deadline: Deadline
}
