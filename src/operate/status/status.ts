import type { QueueSettingsStatus } from '../../queue-settings.ts'
import { readClockUs } from '../../table/dates.ts'
import { type InboxStatus, type RelayStatus, readInboxes, readRelays } from '../../table/operate/peer-status.ts'
import { readClaimedQueues } from '../../table/operate/queues/claimed-queues.ts'
import { type HeldKeys, readHeldKeys } from '../../table/operate/queues/held-keys.ts'
import { type LimitStatus, readLimits } from '../../table/operate/queues/limit-status.ts'
import { readQueueSettings } from '../../table/operate/queues/queue-settings.ts'
import { type QueueStatus, readQueues } from '../../table/operate/queues/queue-status.ts'
import { readSchedules, type ScheduleStatus } from '../../table/operate/schedule-status.ts'
import { readWorkers, type WorkerStatus } from '../../table/operate/worker-status.ts'
import type { Execute } from '../../table/statement.ts'
import {
  type GroupStatus,
  readGroupPartitions,
  readGroups,
  readStreams,
  type StreamStatus,
} from '../../table/stream/stream-status.ts'
import type { Attention } from './attention.ts'
import { attentionToInboxes } from './of-inboxes.ts'
import { attentionToLimits, isUsedUp } from './of-limits.ts'
import { attentionToKeys, attentionToPause, attentionToQueue, mayBeUnconsumed } from './of-queues.ts'
import { attentionToRelays } from './of-relays.ts'
import { attentionToSchedule } from './of-schedules.ts'
import { attentionToGroup, attentionToPartitions, attentionToStream } from './of-streams.ts'
import { attentionToWorkers } from './of-workers.ts'

/** What `operate.status` returns: of all queues, or of one. */
export interface Status {
  /** By the database's clock. */
  readonly at: Date
  readonly queues: readonly QueueStatus[]
  /** Of one queue: those that consume it, with what they have in flight of it. */
  readonly workers: readonly WorkerStatus[]
  /** The settings and pauses of queues. */
  readonly settings: readonly QueueSettingsStatus[]
  /** What is used of the limits of queues and tenants. */
  readonly limits: readonly LimitStatus[]
  /** Whether relays of live workers reach their destinations. */
  readonly relays: readonly RelayStatus[]
  /** Whether inboxes of live workers can receive and store. */
  readonly inboxes: readonly InboxStatus[]
  /** The first 1,000 by name. */
  readonly schedules: readonly ScheduleStatus[]
  /** All streams; of one queue none. */
  readonly streams: readonly StreamStatus[]
  /** All groups; of one queue the group that it is of. */
  readonly groups: readonly GroupStatus[]
  /** What an operator should look at, what is wrong first. */
  readonly attention: readonly Attention[]
}

/** Reads it with one statement for each part, and some more for what needs attention. */
export async function readStatus(execute: Execute, queue: string | null): Promise<Status> {
  const at = new Date(Math.floor((await readClockUs(execute)) / 1_000))
  const queues = await readQueues(execute, queue)
  const groups = await readGroups(execute, null)
  const found = {
    at,
    queues,
    workers: await readWorkers(execute, queue),
    settings: await readQueueSettings(execute, queue),
    limits: await readLimits(execute, queue),
    relays: await readRelays(execute, queue),
    inboxes: await readInboxes(execute, queue),
    schedules: await readSchedules(execute, { queue, name: null, limit: 1_000 }),
    streams: queue === null ? await readStreams(execute, null) : [],
    groups: queue === null ? groups : groups.filter((group) => group.queue === queue),
  }
  const holding = queues.filter((one) => one.held > 0).map((one) => one.queue)
  const held = holding.length === 0 ? [] : await readHeldKeys(execute, holding)
  // A queue of a group is a matter of its stream.
  const ofGroups = new Set(groups.map((group) => group.queue))
  const isOwn = ({ queue: name }: { readonly queue: string }) => !ofGroups.has(name)
  const unconsumed = await readUnconsumed(execute, queues.filter(isOwn))
  const ownSettings = found.settings.filter(isOwn)
  const stopped = await readStopped(execute, found.groups)
  return { ...found, attention: attentionTo({ ...found, settings: ownSettings }, held, unconsumed, stopped) }
}

function attentionTo(
  found: Omit<Status, 'attention'>,
  held: readonly HeldKeys[],
  unconsumed: ReadonlySet<string>,
  stopped: readonly Attention[],
): readonly Attention[] {
  const { at, queues, workers, settings, limits, relays, inboxes, schedules, streams, groups } = found
  const ofRelays = attentionToRelays(relays, queues)
  // What waits for a limit, or for the destination of its relay, is not stuck.
  const waiting = new Set([...limits.filter(isUsedUp), ...ofRelays].map(({ queue }) => queue))
  const all = [
    ...queues.flatMap((queue) => attentionToQueue(queue, waiting.has(queue.queue), unconsumed.has(queue.queue))),
    ...attentionToWorkers(workers),
    ...ofRelays,
    ...attentionToInboxes(inboxes),
    ...schedules.flatMap(attentionToSchedule),
    ...groups.flatMap(attentionToGroup),
    ...stopped,
    ...settings.flatMap((one) => attentionToPause(one, queues, at)),
    ...attentionToLimits(limits),
    ...held.map(attentionToKeys),
    ...streams.flatMap(attentionToStream),
  ]
  return all.toSorted((a, b) => Number(a.severity === 'watch') - Number(b.severity === 'watch'))
}

/** Those of the queues that nobody consumes. */
async function readUnconsumed(execute: Execute, queues: readonly QueueStatus[]): Promise<ReadonlySet<string>> {
  const names = queues.filter(mayBeUnconsumed).map(({ queue }) => queue)
  if (names.length === 0) return new Set()
  const claimed = await readClaimedQueues(execute, names)
  return new Set(names.filter((name) => !claimed.has(name)))
}

async function readStopped(execute: Execute, groups: readonly GroupStatus[]): Promise<readonly Attention[]> {
  const stopped: Attention[] = []
  for (const group of groups.filter(({ partitionsStopped }) => partitionsStopped > 0)) {
    stopped.push(...attentionToPartitions(group, await readGroupPartitions(execute, group.stream, group.group)))
  }
  return stopped
}
