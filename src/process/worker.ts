import { hostname } from 'node:os'
import { Gate } from '../basics/promises/gate.ts'
import { VERSION } from '../basics/version.ts'
import { Patience } from '../connection/patience.ts'
import { orPrivilegeMissing } from '../connection/privilege.ts'
import { InHand } from '../crash/in-hand.ts'
import type { Demand } from '../demand/demand.ts'
import type { Consumption } from '../handle/consumption.ts'
import type { Outcome } from '../message.ts'
import { Cancellations } from '../modes/cancellations.ts'
import { demandOf } from '../modes/demand-of.ts'
import { deliverLeased } from '../modes/leased/deliver-leased.ts'
import type { Runtime } from '../modes/runtime.ts'
import type { LeasedPlan, PipelinePlan } from '../plan/options.ts'
import { BacklogMonitor } from '../services/backlog.ts'
import { Settings } from '../settings/settings.ts'
import { definitionOf, refuseQueueOfGroup } from '../source/of-plan.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import { checkSchema } from '../table/schema.ts'
import type { Execute } from '../table/statement.ts'
import { readCancelRequests } from '../table/worker/cancel-requests.ts'
import { registerWorker, workerIdOf } from '../table/worker/worker.ts'
import type { InOwnTransaction } from '../transaction/own-transaction.ts'
import { WakeUps } from '../wake-up/wake-ups.ts'
import type { BatchPools } from './batch-pools.ts'
import { WAKE_UPS } from './connection-plan.ts'
import { enqueueInHandler, producerContext } from './enqueues.ts'
import type { Pulse } from './health.ts'
import type { Shared } from './shared.ts'
import { signOff } from './sign-off.ts'
import { WorkerServices } from './worker-services.ts'

/**
 * What all pipelines of a process share: what wakes them, the record of batches in flight, and the services. It starts with
 * the first pipeline.
 */
export class Worker {
  readonly #shared: Shared
  readonly #pools: BatchPools
  readonly #wakeUps: WakeUps
  readonly #settings = new Settings()
  readonly #cancellations: Cancellations
  readonly #services: WorkerServices
  readonly #patience: Patience
  readonly #runtime: Runtime
  #id: number | undefined
  readonly #workerId = () => this.#id ?? 0
  #serverVersion = 0
  readonly #cutting = new AbortController()
  #starting: Promise<void> | undefined
  #started = false
  /** Gives back the room for its control connection and its listener. */
  #leave: (() => void) | undefined

  constructor(shared: Shared, pools: BatchPools) {
    const { config, report } = shared
    const inTransaction: InOwnTransaction = (work, answerMs) => pools.inOwnTransaction(work, answerMs)
    this.#shared = shared
    this.#wakeUps = this.#newWakeUps()
    const { control, sleepers } = this.#wakeUps
    control.onUp((execute) => this.#register(execute))
    this.#cancellations = new Cancellations(() => readCancelRequests(control.execute, this.#workerId()))
    control.onRestored(() => void this.#cancellations.look())
    this.#pools = pools
    this.#services = new WorkerServices(shared, this.#wakeUps, pools, this.#workerId)
    const { reaper } = this.#services
    this.#patience = new Patience(() => this.start(), report)
    this.#runtime = {
      connections: pools.connections,
      apart: (work) => pools.apart(work),
      connectTimeoutMs: config.connectTimeoutMs,
      alphabet: shared.alphabet,
      control,
      sleepers,
      settings: this.#settings,
      retryPolicies: config.retryPolicies,
      inHand: new InHand(control, this.#workerId, async () => !control.shared && reaper.runIfStale()),
      crashLimit: config.crashLimit,
      report,
      instruments: shared.instruments,
      enqueue: enqueueInHandler(
        producerContext(shared, { inOwnTransaction: inTransaction, inOnePacket: (send) => pools.inOnePacket(send) }),
      ),
      definitionOf: (plan) => definitionOf(config, plan),
      cancellations: this.#cancellations,
      serverVersion: () => this.#serverVersion,
      workerName: () => shared.alphabet.fit(config.name),
      historyBy: (queue) =>
        this.#settings.of(queue).historyMs === null ? undefined : shared.alphabet.fit(config.name),
      gate: new Gate(LOOKS_AT_A_TIME),
    }
  }

  #newWakeUps(): WakeUps {
    const { config, meters, alphabet, report } = this.#shared
    return new WakeUps({
      config,
      report,
      workerId: this.#workerId,
      settings: this.#settings,
      statistics: () => meters.toJson((text) => alphabet.fit(text)),
      hasNews: () => meters.hasNews,
      onSchedule: (inMs) => this.#services.schedules.due(inMs),
      onCancelRequests: (requests) => this.#cancellations.found(requests),
      onCancelled: (queue) => void this.#cancellations.look(queue),
      onHolds: (queue) => this.#services.holdRelease.asked(queue),
      reaper: () => (this.#services.reaper.isHurried ? this.#services.reaper : undefined),
      onListening: () => void this.#cancellations.look(),
    })
  }

  /** Its connections now. */
  get pulse(): Pulse {
    const { control, listening, sleepers } = this.#wakeUps
    return {
      started: this.#started,
      connected: control.session !== undefined,
      listening,
      lastPollMs: sleepers.poll.answeredMs,
      polls: sleepers.poll.isAnswered,
    }
  }

  /**
   * Connects, checks the schema, and registers. Idempotent.
   *
   * @throws SluiceError UNREACHABLE, SERVER_TOO_OLD, SCHEMA_MISSING, SCHEMA_TOO_OLD, SCHEMA_TOO_NEW, PRIVILEGE_MISSING
   */
  start(): Promise<void> {
    this.#starting ??= this.#start().catch((error: unknown) => {
      this.#starting = undefined
      throw orPrivilegeMissing(error)
    })
    return this.#starting
  }

  /**
   * As {@link start}, but tries again while the database cannot be reached, until the signal aborts.
   *
   * @throws the reason of the signal; SluiceError as {@link start}, and STOPPED.
   */
  startPatiently(signal: AbortSignal): Promise<void> {
    return this.#patience.wait(signal)
  }

  /** A queue that belongs to a group is consumed with the group. @throws SluiceError QUEUE_UNKNOWN, UNREACHABLE */
  refuseQueueOfGroup(plan: PipelinePlan): Promise<void> {
    return refuseQueueOfGroup(this.#wakeUps.control.execute, plan)
  }

  /** Makes the demand of a pipeline, without starting it. The worker must have been started. */
  consume(consumption: Consumption): Demand {
    const { plan, meter, outlet } = consumption
    const demand = demandOf(this.#runtime, consumption)
    const monitor = plan.backlog && new BacklogMonitor(plan.queue, plan.backlog, this.#runtime)
    monitor?.start()
    const { meters } = this.#shared
    meters.open(plan.queue, meter)
    const noRelay = outlet && meters.relays.add(plan.queue, outlet)
    void demand.ended.then(() => {
      meters.close(plan.queue, meter)
      noRelay?.()
      void monitor?.stop()
    })
    // The leases of a dead worker end when its death is found.
    if (plan.mode === 'leased') this.#services.reaper.hurry()
    return demand
  }

  /** Handles one message that is not enqueued, as a leased pipeline does. The worker must have been started. */
  async deliver(consumption: Consumption<LeasedPlan>, row: InsertRow): Promise<Outcome> {
    const share = this.#shared.connections.join(consumption.plan)
    return deliverLeased(this.#runtime, consumption, row).finally(() => share.leave())
  }

  /** Deletes the worker from `sluice.worker` and closes what it opened. The pipelines must have ended. */
  async stop(): Promise<void> {
    this.#patience.stop()
    if (this.#starting === undefined) return this.#leave?.()
    const started = await this.#starting.then(
      () => true,
      () => false,
    )
    await this.#services.stop()
    await this.#wakeUps.stop()
    await this.#runtime.inHand.stop()
    await this.#signOff()
    this.#leave?.()
    this.#starting = undefined
    if (started) this.#reportAs('worker.stopped')
  }

  /** Gives up what the server has not answered: {@link start} rejects, and {@link stop} no longer waits. */
  cut(): void {
    this.#cutting.abort()
    this.#patience.stop()
    this.#wakeUps.cut()
  }

  async #start(): Promise<void> {
    const { connections } = this.#shared
    connections.work()
    this.#leave ??= await this.#pools.room(WAKE_UPS)
    await this.#wakeUps.start()
    this.#started = true
    this.#services.start()
    connections.announce()
    this.#reportAs('worker.started')
  }

  #reportAs(kind: 'worker.started' | 'worker.stopped'): void {
    this.#shared.report({ kind, workerId: this.#workerId(), name: this.#shared.config.name })
  }

  #signOff(): Promise<void> {
    const { directConnection: connection, connectTimeoutMs } = this.#shared.config
    return signOff({
      control: this.#wakeUps.control,
      connection,
      connectTimeoutMs,
      workerId: this.#id,
      signal: this.#cutting.signal,
    })
  }

  async #register(execute: Execute): Promise<void> {
    const { serverVersion } = await checkSchema(execute)
    this.#serverVersion = serverVersion
    const { config, alphabet } = this.#shared
    const [name, host] = [config.name, hostname()]
    await Promise.all([alphabet.learn(execute, [name, host]), this.#settings.load(execute)])
    const identity = { name: alphabet.fit(name), host: alphabet.fit(host), pid: process.pid, version: VERSION }
    this.#id = await workerIdOf(execute, identity, this.#id)
    const { control, sleepers } = this.#wakeUps
    await registerWorker(execute, this.#id, identity, sleepers.queues, control.shared, this.#runtime.inHand.kept)
  }
}

/** How many queues may be looked at side by side before any of them has had messages. */
const LOOKS_AT_A_TIME = 8
