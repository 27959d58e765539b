import { hostname } from 'node:os'
import { Gate } from '../basics/gate.ts'
import { VERSION } from '../basics/version.ts'
import type { SluiceConfig } from '../config.ts'
import { Control } from '../connection/control.ts'
import { inKnownSession } from '../connection/in-session.ts'
import { Patience } from '../connection/patience.ts'
import { orPrivilegeMissing } from '../connection/privilege.ts'
import { InHand } from '../crash/in-hand.ts'
import type { Demand } from '../demand/demand.ts'
import type { Outcome } from '../message.ts'
import { Cancellations } from '../modes/cancellations.ts'
import { deliverLeased } from '../modes/leased/deliver-leased.ts'
import { leased } from '../modes/leased/leased.ts'
import type { Consumption, Runtime } from '../modes/runtime.ts'
import { transactional } from '../modes/transactional/transactional.ts'
import type { LeasedPlan, PipelinePlan } from '../plan/options.ts'
import { BacklogMonitor } from '../services/backlog.ts'
import { HoldRelease } from '../services/hold-release.ts'
import { Maintenance } from '../services/maintenance.ts'
import { Reaper } from '../services/reaper.ts'
import { Schedules } from '../services/schedules.ts'
import type { Alphabet } from '../session/alphabet.ts'
import { Settings } from '../settings/settings.ts'
import type { Meters } from '../statistics/meters.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import { checkSchema, readServerVersion } from '../table/schema.ts'
import type { Execute } from '../table/statement.ts'
import { refuseGroupQueue } from '../table/stream/group-queue.ts'
import { type CancelRequest, readCancelRequests } from '../table/worker/cancel-requests.ts'
import { registerWorker, workerIdOf } from '../table/worker/worker.ts'
import type { Report } from '../telemetry/events.ts'
import { createWatcher } from '../wake-up/create-watcher.ts'
import { Scheduler } from '../wake-up/scheduler.ts'
import type { Watcher } from '../wake-up/watcher.ts'
import type { BatchPools } from './batch-pools.ts'
import { signOff } from './sign-off.ts'

/**
 * What all pipelines of a process share: the control and the listener connection, the scheduler, the record of batches
 * in hand and the reaper. It starts with the first pipeline.
 */
export class Worker {
  readonly #config: SluiceConfig
  readonly #report: Report
  readonly #control: Control
  readonly #scheduler: Scheduler
  readonly #watcher: Watcher
  readonly #reaper: Reaper
  readonly #maintenance: Maintenance | undefined
  readonly #holdRelease: HoldRelease
  readonly #cancellations = new Cancellations(() => readCancelRequests(this.#control.execute, this.#workerId()))
  readonly #hearers = {
    onCancelled: (queue: string) => void this.#cancellations.look(queue),
    onHolds: (queue: string) => this.#holdRelease.asked(queue),
    onUp: () => void this.#cancellations.look(),
  }
  readonly #hooks = {
    listening: () => this.#watcher.listening && !this.#control.shared,
    onSchedule: (inMs: number) => this.#schedules.due(inMs),
    onCancelRequests: (requests: readonly CancelRequest[]) => this.#cancellations.found(requests),
  }
  readonly #schedules: Schedules
  readonly #patience: Patience
  readonly #runtime: Runtime
  readonly #settings = new Settings()
  #id: number | undefined
  readonly #workerId = () => this.#id ?? 0
  #serverVersion = 0
  readonly #cutting = new AbortController()
  #starting: Promise<void> | undefined

  constructor(config: SluiceConfig, pools: BatchPools, alphabet: Alphabet, report: Report, meters: Meters) {
    const { directConnection, vouched, connectTimeoutMs, pollIntervalMs, crashLimit, retryPolicies } = config
    const [workerId, settings] = [this.#workerId, this.#settings]
    this.#config = config
    this.#report = report
    const control = new Control({ connection: directConnection, connectTimeoutMs, report, vouched })
    this.#control = control
    control.onUp((execute) => this.#register(execute))
    const inTransaction: BatchPools['inOwnTransaction'] = (work, answerMs) => pools.inOwnTransaction(work, answerMs)
    this.#schedules = new Schedules({ control, inTransaction, report })
    const statistics = () => meters.toJson()
    const scheduler = new Scheduler({ ...this.#hooks, control, workerId, pollIntervalMs, settings, statistics })
    this.#scheduler = scheduler
    const onReleased = (queue: string) => scheduler.notified(queue)
    this.#holdRelease = new HoldRelease({ control, queues: () => scheduler.queues, onReleased })
    const watched = { control, scheduler, connectTimeoutMs, workerId, report }
    this.#watcher = createWatcher({ ...this.#hearers, ...watched, connection: directConnection })
    this.#reaper = new Reaper({ control, workerId, report })
    this.#maintenance = maintenanceOf({ config, control, inTransaction, alphabet, report })
    control.onDown(() => this.#reaper.lost())
    control.onRestored(() => this.#restored())
    this.#patience = new Patience(() => this.start(), report)
    this.#runtime = {
      pool: pools.pool,
      createPool: pools.create,
      connectTimeoutMs,
      alphabet,
      control,
      scheduler,
      settings,
      retryPolicies,
      inHand: new InHand(control, workerId, async () => !control.shared && this.#reaper.runIfStale()),
      crashLimit,
      report,
      cancellations: this.#cancellations,
      serverVersion: () => this.#serverVersion,
      workerName: () => alphabet.fit(config.name),
      historyBy: (queue) => (settings.of(queue).historyMs === null ? undefined : alphabet.fit(config.name)),
      gate: new Gate(LOOKS_AT_A_TIME),
    }
  }

  /** Whether the control connection is open. */
  get connected(): boolean {
    return this.#control.session !== undefined
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
  async refuseGroupQueue(plan: PipelinePlan): Promise<void> {
    if (plan.mode === 'transactional' && plan.log !== undefined) return
    await refuseGroupQueue(this.#control.execute, plan.queue)
  }

  /** Makes the demand of a pipeline, without starting it. The worker must have been started. */
  consume(given: Consumption): Demand {
    const consumption = this.#watchBacklog(given)
    const { plan } = consumption
    if (plan.mode === 'transactional') return transactional(this.#runtime, { ...consumption, plan })
    // What a dead worker had leased is free when somebody finds that it is dead.
    this.#reaper.hurry()
    return leased(this.#runtime, { ...consumption, plan })
  }

  /** Until the demand has ended. */
  #watchBacklog(consumption: Consumption): Consumption {
    const { queue, backlog } = consumption.plan
    if (backlog === undefined) return consumption
    const { control, report } = this.#runtime
    const monitor = new BacklogMonitor({ queue, plan: backlog, control, report })
    monitor.start()
    const onEnded = () => {
      void monitor.stop()
      consumption.onEnded?.()
    }
    return { ...consumption, onEnded }
  }

  /** Handles one message that is not enqueued, as a leased pipeline does. The worker must have been started. */
  deliver(consumption: Consumption<LeasedPlan>, row: InsertRow): Promise<Outcome> {
    return deliverLeased(this.#runtime, consumption, row)
  }

  /** Deletes the worker from `sluice.worker` and closes what it opened. The pipelines must have ended. */
  async stop(): Promise<void> {
    this.#patience.stop()
    if (this.#starting === undefined) return
    const started = await this.#starting.then(
      () => true,
      () => false,
    )
    await this.#maintenance?.stop()
    await this.#schedules.stop()
    await this.#reaper.stop()
    await this.#watcher.stop()
    await this.#holdRelease.stop()
    await this.#scheduler.stop()
    await this.#runtime.inHand.stop()
    await this.#signOff()
    this.#starting = undefined
    if (started) this.#report({ kind: 'worker.stopped', workerId: this.#id ?? 0, name: this.#config.name })
  }

  /** Gives up what the server has not answered: {@link start} rejects, and {@link stop} no longer waits. */
  cut(): void {
    this.#cutting.abort()
    this.#patience.stop()
    void this.#control.stop()
    void this.#watcher.stop()
  }

  async #start(): Promise<void> {
    await this.#control.start()
    this.#watcher.start()
    this.#scheduler.start()
    this.#reaper.start()
    this.#holdRelease.start()
    this.#maintenance?.start()
    this.#schedules.start()
    this.#report({ kind: 'worker.started', workerId: this.#id ?? 0, name: this.#config.name })
  }

  #restored(): void {
    this.#reaper.restored()
    this.#scheduler.wake('reconnect')
    void this.#cancellations.look()
  }

  #signOff(): Promise<void> {
    const { directConnection: connection, connectTimeoutMs } = this.#config
    return signOff({
      control: this.#control,
      connection,
      connectTimeoutMs,
      workerId: this.#id,
      signal: this.#cutting.signal,
    })
  }

  async #register(execute: Execute): Promise<void> {
    await checkSchema(execute)
    this.#serverVersion = await readServerVersion(execute)
    const { alphabet } = this.#runtime
    const [name, host] = [this.#config.name, hostname()]
    await alphabet.learn(execute, [name, host])
    const identity = { name: alphabet.fit(name), host: alphabet.fit(host), pid: process.pid, version: VERSION }
    this.#id = await workerIdOf(execute, identity, this.#id)
    const { inHand } = this.#runtime
    await registerWorker(execute, this.#id, identity, this.#scheduler.queues, this.#control.shared, inHand.kept)
    await this.#settings.load(execute)
  }
}

interface MaintenanceParts {
  readonly config: SluiceConfig
  readonly control: Control
  readonly inTransaction: BatchPools['inOwnTransaction']
  readonly alphabet: Alphabet
  readonly report: Report
}

function maintenanceOf({ config, alphabet, ...parts }: MaintenanceParts): Maintenance | undefined {
  const { name, maintenanceIntervalMs: intervalMs } = config
  if (intervalMs === null) return undefined
  const { directConnection, vouched, connectTimeoutMs } = config
  const connection = { ...directConnection, connectionTimeoutMillis: connectTimeoutMs }
  return new Maintenance({
    ...parts,
    inSession: (work, signal) => inKnownSession({ connection, vouched }, work, signal),
    by: () => alphabet.fit(name),
    intervalMs,
  })
}

/** How many queues may be looked at side by side before any of them has had messages. */
const LOOKS_AT_A_TIME = 8
