import type { Gate } from '../../basics/promises/gate.ts'
import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import { stopped } from '../../errors.ts'
import { BatchRun } from '../../handle/batch-run.ts'
import type { Consumption } from '../../handle/consumption.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import type { Rules } from '../../settle/decide.ts'
import type { Decided } from '../../settle/decision.ts'
import type { Decisions } from '../../settle/settlement.ts'
import type { ClaimClock } from '../../statistics/meter.ts'
import type { Runtime } from '../runtime.ts'
import { LeasedAttempt } from './leased-attempt.ts'
import { LeasedCall } from './leased-call.ts'
import { LeasedMessage } from './leased-message.ts'
import type { Settler } from './settle/settler.ts'

/**
 * Messages that one claim has leased. Their handlers run side by side. A handler of batches gets all of them, but for those
 * with evidence, each of which it gets alone.
 */
export class LeasedBatch implements Decisions {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<LeasedPlan>
  readonly #settler: Settler
  readonly #messages: readonly LeasedMessage[]
  readonly #run: BatchRun
  /** Calls that are not over, and one more while they are started. */
  #running = 1
  readonly #over = Promise.withResolvers<void>()

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
    const options = { runtime, queue, enqueue: runtime.enqueue, gate: transactions, renew: settler.renew }
    this.#messages = messages
    this.#run = new BatchRun(runtime, consumption, {
      decisions: this,
      attempt: (called) => new LeasedAttempt(options, called.map(leasedOf)),
      clock,
      cancel: async () => undefined,
    })
  }

  get rules(): Rules {
    return this.#settler.rules
  }

  put(decided: Decided): void {
    this.#settler.settle(leasedOf(decided.message), decided)
  }

  /** Resolves when each has an outcome or is given back, written or not. @param stopping ends their handlers */
  async run(stopping: AbortSignal): Promise<void> {
    // One listener for all: each that is added or removed is looked for among those that are there.
    const stop = () => this.#run.stop(stopped('pipeline'))
    stopping.addEventListener('abort', stop)
    if (stopping.aborted) stop()
    try {
      if (this.#consumption.handler.kind === 'each') this.#runEach()
      else this.#runGroups()
      this.#oneLess()
      await this.#over.promise
    } finally {
      stopping.removeEventListener('abort', stop)
    }
  }

  ended({ deadline, messages }: LeasedCall): void {
    deadline.end()
    this.#giveBackUndecided(messages)
    this.#oneLess()
  }

  /** A lost lease or a stop is reported elsewhere. */
  failed(call: LeasedCall, error: Error): void {
    const { queue } = this.#consumption.plan
    const messages = call.messages.length
    if (!call.deadline.isOver) this.#runtime.report({ kind: 'batch.released', queue, messages, error })
    this.ended(call)
  }

  /**
   * The handlers run side by side: a claim takes one message of each key at most, so none waits for another. A call that
   * answers at once leaves its deadline to the next message.
   */
  #runEach(): void {
    let deadline = this.#run.deadline()
    for (const leased of this.#messages) {
      const call = new LeasedCall(this.#run, [leased], deadline, this)
      if (call.start(leased)) {
        this.#running += 1
        deadline = this.#run.deadline()
      } else this.#giveBackUndecided(call.messages)
    }
  }

  #runGroups(): void {
    const hasEvidence = ({ evidence }: LeasedMessage) => evidence !== undefined
    const others = this.#messages.filter((leased) => !hasEvidence(leased))
    const alone = this.#messages.filter(hasEvidence).map((leased) => [leased])
    for (const group of [...(others.length > 0 ? [others] : []), ...alone]) {
      this.#running += 1
      new LeasedCall(this.#run, group, this.#run.deadline(), this).startTogether()
    }
  }

  #giveBackUndecided(messages: readonly LeasedMessage[]): void {
    for (const leased of messages) if (!leased.isDecided) this.#settler.giveBack(leased)
  }

  #oneLess(): void {
    this.#running -= 1
    if (this.#running === 0) this.#over.resolve()
  }
}

function leasedOf(message: DeliveredMessage): LeasedMessage {
  if (message instanceof LeasedMessage) return message
  throw new TypeError('expected a message under a lease')
}
