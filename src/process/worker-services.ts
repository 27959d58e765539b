import type { Control } from '../connection/control.ts'
import { inKnownSession } from '../connection/in-session.ts'
import { ActivityLog } from '../services/activity-log.ts'
import { DueSchedules } from '../services/due-schedules.ts'
import { HoldRelease } from '../services/hold-release.ts'
import { Maintenance } from '../services/maintenance.ts'
import { Reaper } from '../services/reaper.ts'
import type { InOwnTransaction } from '../transaction/own-transaction.ts'
import type { WakeUps } from '../wake-up/wake-ups.ts'
import type { BatchPools } from './batch-pools.ts'
import type { Shared } from './shared.ts'

/** What a worker does in the background beside its pipelines. */
export class WorkerServices {
  readonly reaper: Reaper
  readonly schedules: DueSchedules
  readonly holdRelease: HoldRelease
  readonly #activity: ActivityLog
  readonly #maintenance: Maintenance | undefined

  constructor(shared: Shared, { control, sleepers }: WakeUps, pools: BatchPools, workerId: () => number) {
    const inTransaction: InOwnTransaction = (work, answerMs) => pools.inOwnTransaction(work, answerMs)
    const { alphabet, report } = shared
    const onReleased = (queue: string) => sleepers.notified(queue)
    this.reaper = new Reaper({ control, workerId, report })
    this.schedules = new DueSchedules({ control, inTransaction, alphabet, report })
    this.holdRelease = new HoldRelease({ control, queues: () => sleepers.queues, onReleased })
    this.#activity = new ActivityLog({ control, workerId, take: () => shared.meters.takeActivity(), report })
    this.#maintenance = maintenanceOf(shared, control, inTransaction, pools)
    control.onDown(() => this.reaper.lost())
    control.onRestored(() => this.reaper.restored())
  }

  start(): void {
    this.reaper.start()
    this.holdRelease.start()
    this.#activity.start()
    this.#maintenance?.start()
    this.schedules.start()
  }

  async stop(): Promise<void> {
    await this.#maintenance?.stop()
    await this.schedules.stop()
    await this.reaper.stop()
    await this.holdRelease.stop()
    await this.#activity.stop()
  }
}

function maintenanceOf(
  { config, alphabet, report }: Shared,
  control: Control,
  inTransaction: InOwnTransaction,
  pools: BatchPools,
): Maintenance | undefined {
  const { name, maintenanceIntervalMs: intervalMs, directConnection, vouched, connectTimeoutMs } = config
  if (intervalMs === null) return undefined
  const connection = { ...directConnection, connectionTimeoutMillis: connectTimeoutMs }
  return new Maintenance({
    control,
    inTransaction,
    report,
    inSession: (work, signal) => pools.withRoom(() => inKnownSession({ connection, vouched }, work, signal)),
    by: () => alphabet.fit(name),
    intervalMs,
  })
}
