import type {
  GroupStatus,
  LimitStatus,
  Operate,
  QueueActivity,
  QueueSettingsStatus,
  QueueStatus,
  ScheduleStatus,
  StreamStatus,
  WorkerStatus,
} from 'sluice'

/** What the overview shows, and of which other pages show a part. */
export interface Findings {
  /** By the database's clock. */
  readonly at: Date
  readonly queues: readonly QueueStatus[]
  readonly workers: readonly WorkerStatus[]
  readonly settings: readonly QueueSettingsStatus[]
  readonly limits: readonly LimitStatus[]
  readonly schedules: readonly ScheduleStatus[]
  readonly streams: readonly StreamStatus[]
  readonly groups: readonly GroupStatus[]
  /** What was done in the last hour, by minutes. */
  readonly activity: readonly QueueActivity[]
}

/** One call after the other: a page needs one connection. */
export async function readFindings(operate: Operate): Promise<Findings> {
  return {
    at: await operate.now(),
    queues: await operate.queues.list(),
    workers: await operate.workers.list(),
    settings: await operate.queues.settings.list(),
    limits: await operate.queues.limits(),
    schedules: await operate.schedules.list(),
    streams: await operate.streams.list(),
    groups: await operate.groups.list(),
    activity: await operate.queues.activity(),
  }
}
