import type { Observable } from 'rxjs'
import type { SluiceConfig } from './config.ts'
import type { Demand } from './demand/demand.ts'
import { drainWithin } from './demand/drain-within.ts'
import { isSluiceError, stopped } from './errors.ts'
import type { Work } from './handle/batch-run.ts'
import type { EnqueueIn } from './handle/run-context.ts'
import type { Consumption } from './modes/runtime.ts'
import type { OnDemand } from './on-demand.ts'
import type { PipelineHost, RunningPipeline } from './pipeline/pipeline.ts'
import type { PipelinePlan } from './plan/options.ts'
import type { StartDemand } from './rx/feed.ts'
import type { Report, SluiceEvent } from './telemetry/events.ts'
import type { Worker } from './worker.ts'

export interface ConsumersOptions {
  readonly config: SluiceConfig
  readonly parts: OnDemand
  readonly enqueue: EnqueueIn
  readonly report: Report
  readonly events: Observable<SluiceEvent>
}

/** What a Sluice consumes: its pipelines, its `runOnce` calls and its deliveries, until it stops. */
export class Consumers {
  readonly #options: ConsumersOptions
  readonly #pipelines = new Set<RunningPipeline>()
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
      runOnce: async (work, onSettled) => {
        this.#requireGoing()
        const workers = await parts.workers()
        await workers.visit((worker) => this.#create(worker, { plan, work, onSettled }, this.#runs).runOnce())
      },
      awaitDemand: (work, signal) => this.#await(plan, work, signal),
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
      const demand = await this.#await(plan, work, signal, this.#deliveries).catch(nothingIfStopped)
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

  async #await(plan: PipelinePlan, work: Work, signal: AbortSignal, among?: Set<Demand>): Promise<Demand> {
    this.#requireGoing()
    const workers = await this.#options.parts.workers()
    return this.#create(await workers.startPatiently(signal), { plan, work }, among)
  }

  /** @param among holds it until it has ended */
  #create(worker: Worker, what: Pick<Consumption, 'plan' | 'work' | 'onSettled'>, among?: Set<Demand>): Demand {
    this.#requireGoing()
    const { config, enqueue } = this.#options
    const demand: Demand = worker.consume({
      ...what,
      definition: config.definitions?.[what.plan.queue],
      enqueue,
      onEnded: () => void among?.delete(demand),
    })
    among?.add(demand)
    return demand
  }

  /** @throws SluiceError STOPPED */
  #requireGoing(): void {
    if (this.#stopping) throw stopped('sluice')
  }
}

function nothingIfStopped(error: unknown): undefined {
  if (!isSluiceError(error, 'STOPPED')) throw error
}
