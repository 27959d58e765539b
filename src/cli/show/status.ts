import type {
  GroupStatus,
  Operate,
  QueueSettingsStatus,
  QueueStatus,
  ScheduleStatus,
  StreamStatus,
  WorkerStatus,
} from '../../index.ts'
import type { View } from '../output.ts'
import { pauseText, settingsText } from './queue-settings.ts'
import { formatSchedules } from './schedules.ts'
import { formatGroups, formatStreams, LONG_OPEN_MS } from './streams.ts'
import { type Column, formatTable } from './table.ts'
import { counted, formatAge, formatAgo, formatDue, printable } from './text.ts'

/** What `sluice status` shows, and prints as JSON. */
export interface Status {
  /** By the database's clock. */
  readonly at: Date
  readonly queues: readonly QueueStatus[]
  readonly workers: readonly WorkerStatus[]
  /** What queues have been told. */
  readonly settings: readonly QueueSettingsStatus[]
  readonly schedules: readonly ScheduleStatus[]
  /** All streams, and all groups: of one queue only the group that it is of. */
  readonly streams: readonly StreamStatus[]
  readonly groups: readonly GroupStatus[]
  readonly needsAttention: readonly Attention[]
}

/** Something that an operator should look at, how many messages it concerns if any, and a sentence about it. */
type Attention =
  | { readonly kind: 'noWorker'; readonly queue: string; readonly messages: number; readonly text: string }
  | { readonly kind: 'deadLetters'; readonly queue: string; readonly messages: number; readonly text: string }
  | { readonly kind: 'limited'; readonly queue: string; readonly messages: number; readonly text: string }
  | { readonly kind: 'paused'; readonly queue: string; readonly messages: number; readonly text: string }
  | { readonly kind: 'workerGone'; readonly worker: string; readonly messages: number; readonly text: string }
  | { readonly kind: 'scheduleFailed' | 'scheduleLate'; readonly schedule: string; readonly text: string }
  | {
      readonly kind: 'groupLost' | 'groupStopped' | 'groupUnread'
      readonly stream: string
      readonly group: string
      readonly text: string
    }
  | { readonly kind: 'openAppend'; readonly stream: string; readonly text: string }

/** Reads the status of all queues, or of one, on one connection. */
export async function readStatus(operate: Operate, queue: string | undefined): Promise<Status> {
  const only = queue === undefined ? {} : { queue }
  const at = await operate.now()
  const queues = await operate.queues(only)
  const workers = await operate.workers(only)
  const schedules = await operate.schedules.list(only)
  const settings = await operate.settings.list(only)
  const streams = queue === undefined ? await operate.streams.list() : []
  const groups = (await operate.streams.groups()).filter((group) => queue === undefined || group.queue === queue)
  const stopped = await readStopped(operate, groups)
  const needsAttention = [
    ...settings.flatMap((told) => pausedQueue(told, queues, at)),
    ...settings.flatMap((told) => limitedQueue(told, queues)),
    ...attentionTo(queues, workers),
    ...schedules.flatMap(attentionToSchedule),
    ...groups.flatMap(attentionToGroup),
    ...stopped,
    ...streams.flatMap(attentionToStream),
  ]
  return { at, queues, workers, settings, schedules, streams, groups, needsAttention }
}

/** The status as tables of queues, workers, settings and schedules, and what needs attention. */
export function formatStatus(status: Status, view: View): string {
  const { queues, workers, settings, schedules, streams, groups, needsAttention } = status
  if ([queues, workers, settings, schedules, streams, groups].every((list) => list.length === 0))
    return nothing(workers)
  const told = settings.filter((one) => settingsText(one) !== '')
  const parts = [
    queues.length === 0 ? nothing(workers) : formatTable(queueColumns(view), queues, view),
    workers.length === 0 ? 'No workers.' : formatTable(workerColumns(view), workers, view),
  ]
  if (told.length > 0) parts.push(formatTable(SETTINGS_COLUMNS, told, view))
  if (schedules.length > 0) parts.push(formatSchedules(schedules, view))
  if (streams.length > 0) parts.push(formatStreams(streams, view))
  if (groups.length > 0) parts.push(formatGroups(groups, view))
  if (needsAttention.length > 0) {
    const list = needsAttention.map(({ text }) => `  ${printable(text)}`)
    parts.push([view.paint('yellow', 'needs attention'), ...list].join('\n'))
  }
  return parts.join('\n\n')
}

/** A vanished worker is listed in the other table, but its queues need not exist. */
function nothing(workers: readonly WorkerStatus[]): string {
  return workers.length === 0 ? 'No messages, dead letters or workers.' : 'No messages or dead letters.'
}

/**
 * What needs attention: ready messages that nobody consumes, workers that vanished with messages in hand, dead letters.
 */
function attentionTo(queues: readonly QueueStatus[], workers: readonly WorkerStatus[]): readonly Attention[] {
  return [
    ...queues.filter((queue) => queue.ready > 0 && queue.workers === 0).map(noWorker),
    ...workers.filter((worker) => !worker.alive && worker.inFlight > 0).map(workerGone),
    ...queues.filter((queue) => queue.dead > 0).map(deadLetters),
  ]
}

function pausedQueue(told: QueueSettingsStatus, queues: readonly QueueStatus[], at: Date): readonly Attention[] {
  const { queue } = told
  const since = pauseText(told, at)
  const { ready = 0 } = queues.find((status) => status.queue === queue) ?? {}
  if (since === null) return []
  return [{ kind: 'paused', queue, messages: ready, text: `${queue}: paused ${since}, with ${ready} ready` }]
}

/** Messages that wait because as many are in flight as may be. Who waits for a rate or a tenant's limit, sluice.limits says. */
function limitedQueue(
  { queue, concurrency }: QueueSettingsStatus,
  queues: readonly QueueStatus[],
): readonly Attention[] {
  const { ready = 0, inFlight = 0 } = queues.find((status) => status.queue === queue) ?? {}
  if (concurrency === null || ready === 0 || inFlight < concurrency) return []
  const text = `${queue}: ${ready} ready wait for the limit: concurrency ${concurrency}, ${inFlight} in flight`
  return [{ kind: 'limited', queue, messages: ready, text }]
}

const SETTINGS_COLUMNS: readonly Column<QueueSettingsStatus>[] = [
  { title: 'QUEUE', cell: ({ queue }) => queue },
  { title: 'SETTINGS', cell: settingsText },
]
function attentionToSchedule({ name, error, nextInMs }: ScheduleStatus): readonly Attention[] {
  if (error !== null) return [{ kind: 'scheduleFailed', schedule: name, text: `schedule ${name} fails: ${error}` }]
  if (nextInMs === null || nextInMs > -LATE_MS) return []
  const text = `schedule ${name} is late by ${formatAge(-nextInMs)}: no worker looks after it`
  return [{ kind: 'scheduleLate', schedule: name, text }]
}

function attentionToGroup({ stream, group, lost, members, unread, pausedAt }: GroupStatus): readonly Attention[] {
  if (lost !== null) {
    const text = `${stream}, group ${group}: lost its unread events from ${lost.from} to ${lost.to}, see: sluice group seek`
    return [{ kind: 'groupLost', stream, group, text }]
  }
  if (unread === 0 || members > 0 || pausedAt !== null) return []
  const text = `${stream}, group ${group}: ${counted(unread, 'event')} unread, and no live worker reads them`
  return [{ kind: 'groupUnread', stream, group, text }]
}

/** Each event at which a group has stopped. */
async function readStopped(operate: Operate, groups: readonly GroupStatus[]): Promise<readonly Attention[]> {
  const attention: Attention[] = []
  for (const { stream, group } of groups.filter(({ slotsStopped }) => slotsStopped > 0)) {
    for (const { slot, nextPosition, held } of await operate.streams.slots(stream, group)) {
      if (held === null || held.until !== null) continue
      const event = `stopped at event ${nextPosition}, which has failed for good: ${held.error}`
      const text = `${stream}, group ${group}: slot ${slot} ${event}; see: sluice group retry, sluice group skip`
      attention.push({ kind: 'groupStopped', stream, group, text })
    }
  }
  return attention
}

function attentionToStream({ stream, openForMs, openPid }: StreamStatus): readonly Attention[] {
  if (openForMs === null || openForMs < LONG_OPEN_MS) return []
  const text = `${stream}: an append has been open for ${formatAge(openForMs)}, in process ${openPid}, and groups wait behind it`
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
  const text = `worker ${name} (${id}) is gone with ${inHand} in hand, last seen ${formatAgo(seenAgoMs)}`
  return { kind: 'workerGone', worker: name, messages: inFlight, text }
}

function deadLetters({ queue, dead }: QueueStatus): Attention {
  const what = counted(dead, 'dead letter')
  return { kind: 'deadLetters', queue, messages: dead, text: `${queue}: ${what}, see: sluice dead list ${queue}` }
}

function queueColumns({ paint }: View): readonly Column<QueueStatus>[] {
  return [
    { title: 'QUEUE', cell: (queue) => queue.queue },
    { title: 'READY', align: 'right', cell: (queue) => queue.ready },
    { title: 'SCHEDULED', align: 'right', cell: (queue) => queue.scheduled },
    { title: 'RETRYING', align: 'right', cell: (queue) => queue.retrying },
    { title: 'IN FLIGHT', align: 'right', cell: (queue) => queue.inFlight },
    {
      title: 'DEAD',
      align: 'right',
      cell: (queue) => queue.dead,
      paint: (text, queue) => (queue.dead > 0 ? paint('red', text) : text),
    },
    {
      title: 'OLDEST READY',
      align: 'right',
      cell: (queue) => (queue.oldestReadyAgeMs === null ? null : formatAge(queue.oldestReadyAgeMs)),
    },
    {
      title: 'NEXT DUE',
      align: 'right',
      cell: (queue) => (queue.nextDueInMs === null ? null : formatNextDue(queue.nextDueInMs)),
    },
    {
      title: 'WORKERS',
      align: 'right',
      cell: (queue) => queue.workers,
      paint: (text, queue) => (queue.workers === 0 && queue.ready > 0 ? paint('yellow', text) : text),
    },
  ]
}

/** The message was due later when it was counted, and may be due by now. */
function formatNextDue(ms: number): string {
  return ms <= 0 ? 'now' : formatDue(ms)
}

function workerColumns({ paint }: View): readonly Column<WorkerStatus>[] {
  return [
    { title: 'WORKER', cell: (worker) => worker.name },
    {
      title: 'ALIVE',
      cell: (worker) => (worker.alive ? 'yes' : 'no'),
      paint: (text, worker) => paint(worker.alive ? 'green' : 'red', text),
    },
    { title: 'IN FLIGHT', align: 'right', cell: (worker) => worker.inFlight },
    { title: 'SEEN', align: 'right', cell: (worker) => formatAgo(worker.seenAgoMs) },
    { title: 'QUEUES', cell: (worker) => worker.queues.join(', ') },
  ]
}
