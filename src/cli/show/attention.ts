import type {
  GroupStatus,
  LimitStatus,
  Operate,
  QueueSettingsStatus,
  QueueStatus,
  ScheduleStatus,
  StreamStatus,
  WorkerStatus,
} from '../../index.ts'
import { pauseText } from './queue-settings.ts'
import { LONG_OPEN_MS } from './streams.ts'
import { counted, formatAge, formatAgo } from './text.ts'

/** What has been read. */
export interface Findings {
  /** By the database's clock. */
  readonly at: Date
  readonly queues: readonly QueueStatus[]
  readonly workers: readonly WorkerStatus[]
  /** The settings and pauses of queues. */
  readonly settings: readonly QueueSettingsStatus[]
  /** What is used of the limits of queues and tenants. */
  readonly limits: readonly LimitStatus[]
  readonly schedules: readonly ScheduleStatus[]
  /** All streams, and all groups: of one queue only the group that it is of. */
  readonly streams: readonly StreamStatus[]
  readonly groups: readonly GroupStatus[]
}

/** Something that an operator should look at, how many messages it concerns if any, and a sentence about it. */
export type Attention =
  | {
      readonly kind: 'noWorker' | 'queueStuck' | 'deadLetters' | 'limited' | 'paused'
      readonly queue: string
      readonly messages: number
      readonly text: string
    }
  | {
      readonly kind: 'workerGone' | 'workerSilent'
      readonly worker: string
      readonly messages: number
      readonly text: string
    }
  | { readonly kind: 'scheduleFailed' | 'scheduleLate'; readonly schedule: string; readonly text: string }
  | {
      readonly kind: 'groupLost' | 'groupStopped' | 'groupUnread'
      readonly stream: string
      readonly group: string
      readonly text: string
    }
  | { readonly kind: 'openAppend'; readonly stream: string; readonly text: string }

/** What needs attention, of what has been read. */
export function attentionTo(found: Findings): readonly Attention[] {
  const { at, queues, workers, settings, limits, schedules, streams, groups } = found
  const limited = limits.filter(isUsedUp)
  return [
    ...settings.flatMap((setting) => pausedQueue(setting, queues, at)),
    ...limited.filter(({ tenant }) => tenant === null).map(limitedQueue),
    ...limitedTenants(limited),
    ...queues.filter((queue) => queue.ready > 0 && queue.workers === 0).map(noWorker),
    ...queues
      .filter((queue) => isStuck(queue) && !limited.some((limit) => limit.queue === queue.queue))
      .map(stuckQueue),
    ...workers.filter((worker) => !worker.alive && worker.inFlight > 0).map(workerGone),
    ...workers.filter((worker) => worker.alive && worker.seenAgoMs > SILENT_MS).map(workerSilent),
    ...queues.filter((queue) => queue.dead > 0).map(deadLetters),
    ...schedules.flatMap(attentionToSchedule),
    ...groups.flatMap(attentionToGroup),
    ...streams.flatMap(attentionToStream),
  ]
}

/** A worker writes its heartbeat at least every 30 s, whatever its poll interval is. One that hangs keeps its connection. */
const SILENT_MS = 90_000

function pausedQueue(settings: QueueSettingsStatus, queues: readonly QueueStatus[], at: Date): readonly Attention[] {
  const { queue } = settings
  const since = pauseText(settings, at)
  const { ready = 0 } = queues.find((status) => status.queue === queue) ?? {}
  if (since === null) return []
  return [{ kind: 'paused', queue, messages: ready, text: `${queue}: paused ${since}, with ${ready} ready` }]
}

/** Messages wait, and as many are in flight, or have begun, as may. */
function isUsedUp({ concurrency, inFlight, tokens, ready }: LimitStatus): boolean {
  return ready > 0 && ((concurrency !== null && inFlight >= concurrency) || (tokens !== null && tokens < 1))
}

function limitedQueue({ queue, ready, concurrency, inFlight, rate, rateIntervalMs, tokens }: LimitStatus): Attention {
  const limit =
    tokens !== null && tokens < 1
      ? `rate ${rate} per ${formatAge(rateIntervalMs)}`
      : `concurrency ${concurrency}, ${inFlight} in flight`
  return { kind: 'limited', queue, messages: ready, text: `${queue}: ${ready} ready wait for the limit: ${limit}` }
}

/** A line for each queue: it may have thousands of tenants. */
function limitedTenants(limited: readonly LimitStatus[]): readonly Attention[] {
  const byQueue = Map.groupBy(
    limited.filter(({ tenant }) => tenant !== null),
    ({ queue }) => queue,
  )
  return [...byQueue].map(([queue, tenants]) => {
    const messages = tenants.reduce((sum, { ready }) => sum + ready, 0)
    const [first] = tenants
    const who = tenants.length === 1 ? `tenant ${first?.tenant}` : `${tenants.length} tenants, such as ${first?.tenant}`
    const text = `${queue}: ${messages} ready wait for the limit of ${who}; see: sluice.limits`
    return { kind: 'limited', queue, messages, text }
  })
}

/** Live workers consume the queue, and take nothing although it has been due for long. */
function isStuck({ ready, inFlight, workers, pausedAt, oldestReadyAgeMs }: QueueStatus): boolean {
  return ready > 0 && workers > 0 && inFlight === 0 && pausedAt === null && (oldestReadyAgeMs ?? 0) > STUCK_MS
}

const STUCK_MS = 60_000

function stuckQueue({ queue, ready, oldestReadyAgeMs, workers }: QueueStatus): Attention {
  const since = `the oldest for ${formatAge(oldestReadyAgeMs ?? 0)}`
  const text = `${queue}: ${ready} ready, ${since}, and nothing is in flight although ${counted(workers, 'live worker')} consume it`
  return { kind: 'queueStuck', queue, messages: ready, text }
}

function attentionToSchedule({ name, error, nextInMs }: ScheduleStatus): readonly Attention[] {
  if (error !== null) return [{ kind: 'scheduleFailed', schedule: name, text: `schedule ${name} fails: ${error}` }]
  if (nextInMs === null || nextInMs > -LATE_MS) return []
  const text = `schedule ${name} is late by ${formatAge(-nextInMs)}: no worker enqueues it`
  return [{ kind: 'scheduleLate', schedule: name, text }]
}

function attentionToGroup({ stream, group, lost, members, unread, pausedAt }: GroupStatus): readonly Attention[] {
  if (lost !== null) {
    const text = `${stream}, group ${group}: lost its unread events from ${lost.from} to ${lost.to}, see: sluice group seek ${stream} ${group} --to <offset>`
    return [{ kind: 'groupLost', stream, group, text }]
  }
  if (unread === 0 || members > 0 || pausedAt !== null) return []
  const text = `${stream}, group ${group}: ${counted(unread, 'event')} unread, and no live worker reads them`
  return [{ kind: 'groupUnread', stream, group, text }]
}

/** Each event that has failed for good and blocks a partition. */
export async function readStopped(operate: Operate, groups: readonly GroupStatus[]): Promise<readonly Attention[]> {
  const attention: Attention[] = []
  for (const { stream, group } of groups.filter(({ partitionsStopped }) => partitionsStopped > 0)) {
    for (const { partition, nextPosition, blockedBy } of await operate.groups.partitions(stream, group)) {
      if (blockedBy === null || blockedBy.until !== null) continue
      const event = `blocked by event ${nextPosition}, which has failed for good: ${blockedBy.error}`
      const retry = `sluice group retry ${stream} ${group} --partition ${partition}`
      const skip = `sluice group skip ${stream} ${group} ${nextPosition}`
      const text = `${stream}, group ${group}: partition ${partition} ${event}; see: ${retry}, ${skip}`
      attention.push({ kind: 'groupStopped', stream, group, text })
    }
  }
  return attention
}

function attentionToStream({ stream, openForMs, openPid }: StreamStatus): readonly Attention[] {
  if (openForMs === null || openForMs < LONG_OPEN_MS) return []
  const text = `${stream}: an append has been open for ${formatAge(openForMs)}, in server process ${openPid}, and blocks the groups`
  return [{ kind: 'openAppend', stream, text }]
}

/** The longest poll interval: with a worker, an occurrence is enqueued by then. */
const LATE_MS = 60_000

function noWorker({ queue, ready, oldestReadyAgeMs }: QueueStatus): Attention {
  const since = oldestReadyAgeMs === null ? '' : `, the oldest for ${formatAge(oldestReadyAgeMs)}`
  return {
    kind: 'noWorker',
    queue,
    messages: ready,
    text: `${queue}: ${ready} ready${since}, and no live worker consumes it`,
  }
}

function workerGone({ name, id, inFlight, seenAgoMs }: WorkerStatus): Attention {
  const inHand = counted(inFlight, 'message')
  const text = `worker ${name} (${id}) is gone with ${inHand} in flight, last seen ${formatAgo(seenAgoMs)}`
  return { kind: 'workerGone', worker: name, messages: inFlight, text }
}

function deadLetters({ queue, dead }: QueueStatus): Attention {
  const what = counted(dead, 'dead letter')
  return { kind: 'deadLetters', queue, messages: dead, text: `${queue}: ${what}, see: sluice dead list ${queue}` }
}

/** It has a connection to the server, and does nothing: its process hangs or is stopped. */
function workerSilent({ name, id, inFlight, seenAgoMs }: WorkerStatus): Attention {
  const text = `worker ${name} (${id}) has been silent for ${formatAge(seenAgoMs)}, with ${counted(inFlight, 'message')} in flight`
  return { kind: 'workerSilent', worker: name, messages: inFlight, text }
}
