import type { Observable } from 'rxjs'
import type { Duration } from '../basics/time/duration.ts'
import { within } from '../basics/time/within.ts'
import type { Demand } from '../demand/demand.ts'
import { isSluiceError, stopped } from '../errors.ts'
import type { Consumption } from '../handle/consumption.ts'
import { metersInside } from '../handle/inside.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Meter } from '../statistics/meter.ts'
import type { Peers } from '../statistics/peers.ts'
import type { Report, SluiceEvent } from '../telemetry/events.ts'
import type { ConnectionPlan, Share } from './connection-plan.ts'
import type { ConsumersState } from './health.ts'
import type { OnDemand } from './on-demand.ts'
import { RunShares } from './run-shares.ts'
import type { Shared } from './shared.ts'
import type { Worker } from './worker.ts'

/** A pipeline, or an inbox, that runs: the stop of the Sluice drains it. */
export interface Drainable {
  readonly queue: string
  drain(options: { readonly timeout?: Duration | undefined }): Promise<unknown>
}

/** What a Sluice consumes: its pipelines, its `runOnce` calls and its deliveries, until it stops. */
export class Consumers {
  /** Everything that happens in this process. */
  readonly events: Observable<SluiceEvent>
  readonly report: Report
  /** For the heartbeat. */
  readonly inboxes: Peers
  readonly #parts: OnDemand
  readonly #connections: ConnectionPlan
  readonly #runShares: RunShares
  /** With the meters of those that have handlers. */
  readonly #pipelines = new Map<Drainable, Meter | undefined>()
  readonly #runs = new Set<Demand>()
  readonly #deliveries = new Set<Demand>()
  /** Of the runs. */
  readonly #meters = new Set<Meter>()
  /** The queues whose last pipeline has failed: it could not start. */
  readonly #failed = new Set<string>()
  /** Pipelines that claim no more. */
  readonly #leaving = new WeakSet<Drainable>()
  /** Nothing starts any more. */
  #stopping = false

  constructor({ connections, report, meters }: Shared, parts: OnDemand, events: Observable<SluiceEvent>) {
    this.#parts = parts
    this.#connections = connections
    this.#runShares = new RunShares(connections)
    this.report = report
    this.inboxes = meters.inboxes
    this.events = events
  }

  /** Connects, and checks the schema. @throws SluiceError as Worker.start, and STOPPED */
  async start(): Promise<void> {
    this.#requireGoing()
    const current = await this.#parts.worker()
    await current.start()
  }

  /** Connects, and waits for a database that is down until the signal aborts. @throws SluiceError as Worker.startPatiently, and STOPPED */
  async ready(signal: AbortSignal): Promise<void> {
    this.#requireGoing()
    const current = await this.#parts.worker()
    await current.startPatiently(signal)
  }

  /** Does work that a stop drains. @throws SluiceError STOPPED, and what the work throws */
  async during<T>(drainable: Drainable, work: () => Promise<T>): Promise<T> {
    this.#requireGoing()
    this.opened(drainable)
    try {
      return await work()
    } finally {
      this.closed(drainable, false)
    }
  }

  /** A pipeline is to run: its share of the connections. @throws SluiceError OPTION_INVALID if there are too few */
  join(plan: PipelinePlan): Share {
    return this.#connections.join(plan)
  }

  /** From here until {@link closed} a stop drains the pipeline. */
  opened(pipeline: Drainable, meter?: Meter): void {
    this.#failed.delete(pipeline.queue)
    this.#pipelines.set(pipeline, meter)
  }

  /** Whether it starts or runs, and has not been called to end. */
  goesOn(pipeline: Drainable): boolean {
    return this.#pipelines.has(pipeline) && !this.#leaving.has(pipeline)
  }

  /** It claims no more. */
  leaves(pipeline: Drainable): void {
    this.#leaving.add(pipeline)
  }

  /** @param failed it could not start, and another attempt would not help */
  closed(pipeline: Drainable, failed: boolean): void {
    this.#pipelines.delete(pipeline)
    if (failed) this.#failed.add(pipeline.queue)
  }

  /** Whether anything is consumed, or was to be. */
  get state(): ConsumersState {
    if (this.#failed.size > 0) return 'failed'
    const pipelines = [...this.#pipelines.keys()]
    if (this.#stopping || (pipelines.length > 0 && pipelines.every((one) => this.#leaving.has(one)))) return 'draining'
    return pipelines.length + this.#runs.size + this.#deliveries.size > 0 ? 'wanted' : 'idle'
  }

  /**
   * Makes the demand of a pipeline, which does not run yet, once the process is connected. It waits for a database that
   * is down until the signal aborts.
   *
   * @param among where a stop finds it, until it has ended
   * @throws SluiceError as Worker.startPatiently, and STOPPED
   */
  async demand(consumption: Consumption, signal: AbortSignal, among?: Set<Demand>): Promise<Demand> {
    this.#requireGoing()
    const current = await this.#parts.worker()
    const worker = await current.startPatiently(signal)
    return this.#create(worker, consumption, among)
  }

  /**
   * The same for a subscriber of deliveries, whose demand runs at once. A stop gives back what is not settled.
   *
   * @returns undefined if the Sluice has been stopped meanwhile
   */
  async deliver(consumption: Consumption, signal: AbortSignal): Promise<Demand | undefined> {
    this.#requireGoing()
    const share = this.join(consumption.plan)
    const leave = () => share.leave()
    try {
      const demand = await this.demand(consumption, signal, this.#deliveries)
      void demand.ended.then(leave)
      share.govern((batches) => demand.limit(batches))
      demand.start()
      return demand
    } catch (error) {
      leave()
      return nothingIfStopped(error)
    }
  }

  /** Connects if need be, and handles what is due. `demanded` is called with the demand before it runs. */
  async runOnce(consumption: Consumption, demanded: (demand: Demand) => void): Promise<void> {
    this.#requireGoing()
    const { plan, meter } = consumption
    const leave = this.#runShares.enter(plan)
    this.#meters.add(meter)
    try {
      const current = await this.#parts.worker()
      await current.visit(async (worker) => {
        const demand = await this.#create(worker, consumption, this.#runs)
        demanded(demand)
        return demand.runOnce()
      })
    } finally {
      this.#meters.delete(meter)
      leave()
    }
  }

  /** Whether a handler calls this for which {@link stop} waits. */
  get isInHandler(): boolean {
    const meters = [...this.#meters, ...this.#pipelines.values()]
    return metersInside().some((meter) => meters.includes(meter))
  }

  /** Starts nothing any more. Drains pipelines and runs, and gives back unsettled deliveries. */
  async stop(drainMs: number): Promise<void> {
    this.#stopping = true
    await Promise.all([
      ...[...this.#pipelines.keys()].map((pipeline) => pipeline.drain({ timeout: drainMs })),
      ...[...this.#runs].map((demand) => drainWithin(drainMs, demand)),
      ...[...this.#deliveries].map((demand) => demand.stop()),
    ])
  }

  async #create(worker: Worker, consumption: Consumption, among?: Set<Demand>): Promise<Demand> {
    await worker.refuseQueueOfGroup(consumption.plan)
    this.#requireGoing()
    const demand = worker.consume(consumption)
    among?.add(demand)
    void demand.ended.then(() => among?.delete(demand))
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

/** Drains a demand, and after so long stops it. */
async function drainWithin(ms: number, demand: Demand): Promise<void> {
  await within(ms, demand.drain(), () => void demand.stop())
  await demand.stop()
}
