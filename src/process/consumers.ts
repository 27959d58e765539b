import type { Observable } from 'rxjs'
import type { SluiceConfig } from '../config.ts'
import type { Demand } from '../demand/demand.ts'
import { drainWithin } from '../demand/drain-within.ts'
import { isSluiceError, stopped } from '../errors.ts'
import type { EnqueueIn } from '../handle/run-context.ts'
import type { Consumption } from '../modes/runtime.ts'
import type { Drainable, PipelineHost } from '../pipeline/host.ts'
import { onErrorOf } from '../pipeline/on-error.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { StartDemand } from '../rx/feed.ts'
import { Meter } from '../statistics/meter.ts'
import type { Meters } from '../statistics/meters.ts'
import type { Report, SluiceEvent } from '../telemetry/events.ts'
import type { OnDemand } from './on-demand.ts'
import type { Worker } from './worker.ts'

export interface ConsumersOptions {
  readonly config: SluiceConfig
  readonly parts: OnDemand
  readonly enqueue: EnqueueIn
  readonly meters: Meters
  readonly report: Report
  readonly events: Observable<SluiceEvent>
}

/** What a Sluice consumes: its pipelines, its `runOnce` calls and its deliveries, until it stops. */
export class Consumers {
  readonly #options: ConsumersOptions
  readonly #pipelines = new Set<Drainable>()
  readonly #runs = new Set<Demand>()
  readonly #deliveries = new Set<Demand>()
  /** Nothing starts any more. */
  #stopping = false

  constructor(options: ConsumersOptions) {
    this.#options = options
  }

  /** Connects, and checks the schema. @throws SluiceError as Worker.start, and STOPPED */
  async start(): Promise<void> {
    this.#requireGoing()
    const workers = await this.#options.parts.workers()
    await workers.start()
  }

  /** What a pipeline needs. */
  hostOf(plan: PipelinePlan): PipelineHost {
    const { events, parts, report } = this.#options
    return {
      plan,
      runOnce: async (work, onSettled) => {
        this.#requireGoing()
        const workers = await parts.workers()
        await workers.visit(async (worker) => {
          await worker.refuseGroupQueue(plan)
          const end = () => void demand.drain()
          const onFailed = onErrorOf(plan, report, { pause: end, stop: end })
          const demand: Demand = this.#create(worker, { plan, work, onSettled, onFailed }, this.#runs)
          return demand.runOnce()
        })
      },
      awaitDemand: (what, signal) => this.#await({ plan, ...what }, signal),
      events,
      report,
      opened: (pipeline) => this.#pipelines.add(pipeline),
      closed: (pipeline) => this.#pipelines.delete(pipeline),
    }
  }

  /** What deliveries need. */
  deliveriesOf(plan: PipelinePlan): StartDemand {
    return async (work, signal) => {
      this.#requireGoing()
      const demand = await this.#await({ plan, work }, signal, this.#deliveries).catch(nothingIfStopped)
      demand?.start()
      return demand
    }
  }

  /** Starts nothing any more. Drains pipelines and runs, and gives back deliveries that nobody has settled. */
  async stop(drainMs: number): Promise<void> {
    this.#stopping = true
    await Promise.all([
      ...[...this.#pipelines].map((pipeline) => pipeline.drain({ timeout: drainMs })),
      ...[...this.#runs].map((demand) => drainWithin(drainMs, demand)),
      ...[...this.#deliveries].map((demand) => demand.stop()),
    ])
  }

  async #await(what: Demanded, signal: AbortSignal, among?: Set<Demand>): Promise<Demand> {
    this.#requireGoing()
    const workers = await this.#options.parts.workers()
    const worker = await workers.startPatiently(signal)
    await worker.refuseGroupQueue(what.plan)
    return this.#create(worker, what, among)
  }

  /** @param among holds it until it has ended */
  #create(worker: Worker, what: Demanded, among?: Set<Demand>): Demand {
    this.#requireGoing()
    const { config, enqueue, meters } = this.#options
    const { queue } = what.plan
    const log = what.plan.mode === 'transactional' ? what.plan.log : undefined
    const meter = what.meter ?? new Meter()
    meters.open(queue, meter)
    const demand: Demand = worker.consume({
      ...what,
      meter,
      definition: log === undefined ? config.definitions?.[queue] : config.streams?.[log.stream],
      enqueue,
      onEnded: () => {
        among?.delete(demand)
        meters.close(queue, meter)
      },
    })
    among?.add(demand)
    return demand
  }

  /** @throws SluiceError STOPPED */
  #requireGoing(): void {
    if (this.#stopping) throw stopped('sluice')
  }
}

type Demanded = Pick<Consumption, 'plan' | 'work' | 'onSettled' | 'onFailed' | 'meter'>

function nothingIfStopped(error: unknown): undefined {
  if (!isSluiceError(error, 'STOPPED')) throw error
}
