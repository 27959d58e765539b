import { type Admission, type Nothing, ONE_MESSAGE, UNLIMITED } from '../../claim/admission.ts'
import { CLAIM, type Next, type Round, type RoundDemand } from '../../demand/round.ts'
import type { Consumption } from '../../handle/consumption.ts'
import type { TransactionalPlan } from '../../plan/options.ts'
import type { TransactionalSource } from '../../source/source.ts'
import { Losses, reasonFor } from '../losses.ts'
import type { Runtime } from '../runtime.ts'
import { BatchLoop } from './batch-loop.ts'

/** Claims, handles and settles each batch in one transaction. A round is a loop of batches on one connection. */
export class TransactionalRound implements Round {
  readonly #runtime: Runtime
  readonly #consumption: Consumption<TransactionalPlan>
  readonly #source: TransactionalSource
  readonly #losses: Losses
  readonly #loops = new Set<BatchLoop>()
  #connections: number

  constructor(runtime: Runtime, consumption: Consumption<TransactionalPlan>, source: TransactionalSource) {
    const { queue, concurrency } = consumption.plan
    this.#runtime = runtime
    this.#consumption = consumption
    this.#losses = new Losses(queue, runtime.report)
    this.#source = source
    this.#connections = concurrency
  }

  /** One for each batch. */
  get connections(): number {
    return this.#connections
  }

  async run(demand: RoundDemand, alone: boolean, onCommitted: () => void): Promise<Next> {
    const { outlet } = this.#consumption
    if (outlet === undefined) return this.#claim(demand, alone, onCommitted, false)
    const passage = await outlet.enter(this.#runtime.control.execute, demand.draining)
    if (passage === undefined) return NOTHING
    try {
      return await this.#claim(demand, alone, onCommitted, passage.isProbe)
    } finally {
      passage.over()
    }
  }

  async #claim(demand: RoundDemand, alone: boolean, onCommitted: () => void, isProbe: boolean): Promise<Next> {
    const most = isProbe ? 1 : this.#consumption.plan.batchSize
    const admitted = await this.#source.admit(demand, most)
    if ('kind' in admitted) return admitted
    const admission = isProbe && admitted === UNLIMITED ? ONE_MESSAGE : admitted
    try {
      const loop = this.#loopOf(demand, admission, onCommitted)
      return await this.#run(loop, demand, alone)
    } finally {
      admission.close()
    }
  }

  #loopOf(demand: RoundDemand, admission: Admission, onCommitted: () => void): BatchLoop {
    return new BatchLoop(this.#runtime, this.#consumption, this.#source, this.#losses, demand, admission, onCommitted)
  }

  async #run(loop: BatchLoop, { draining }: RoundDemand, alone: boolean): Promise<Next> {
    const { gate, inHand } = this.#runtime
    if (!(await inHand.aloneLock.enter(alone, draining))) return CLAIM
    const leave = await gate.enter()
    this.#loops.add(loop)
    try {
      return await loop.run(alone, leave)
    } finally {
      this.#loops.delete(loop)
      leave()
      inHand.aloneLock.leave()
    }
  }

  failed(error: unknown, retryInMs?: number): unknown {
    this.#losses.report(error, retryInMs)
    return reasonFor(error)
  }

  resize(concurrency: number): number {
    this.#source.resize(concurrency)
    this.#connections = concurrency
    return concurrency
  }

  /** A round ends with its last batch. */
  async drained(): Promise<boolean> {
    await this.#consumption.outlet?.close()
    return false
  }

  cut(): void {
    for (const loop of this.#loops) loop.cut()
  }
}

const NOTHING: Nothing = { kind: 'sleep', nextDueMs: null, partial: false }
