import type { Operate, QueueSettingsStatus, QueueStatus, WorkerStatus } from '../../index.ts'
import type { View } from '../output.ts'
import { type Attention, attentionTo, type Findings, readStopped } from './attention.ts'
import { settingsText } from './queue-settings.ts'
import { formatSchedules } from './schedules.ts'
import { formatGroups, formatStreams } from './streams.ts'
import { formatTable, type TableColumn } from './table.ts'
import { formatAge, formatAgo, formatDue, printable } from './text.ts'

/** What `sluice status` shows, and prints as JSON. */
export interface StatusPage extends Findings {
  readonly needsAttention: readonly Attention[]
}

/** Reads the status of all queues, or of one, on one connection. */
export async function readStatus(operate: Operate, queue: string | undefined): Promise<StatusPage> {
  const only = queue === undefined ? {} : { queue }
  const at = await operate.now()
  const queues = await operate.queues.list(only)
  const workers = await operate.workers.list(only)
  const schedules = await operate.schedules.list(only)
  const settings = await operate.queues.settings.list(only)
  const streams = queue === undefined ? await operate.streams.list() : []
  const groups = (await operate.groups.list()).filter((group) => queue === undefined || group.queue === queue)
  const limits = await operate.queues.limits(only)
  const stopped = await readStopped(operate, groups)
  const found = { at, queues, workers, settings, limits, schedules, streams, groups }
  return { ...found, needsAttention: [...attentionTo(found), ...stopped] }
}

/** The status as tables of queues, workers, settings and schedules, and what needs attention. */
export function formatStatus(status: StatusPage, view: View): string {
  const { queues, workers, settings, schedules, streams, groups, needsAttention } = status
  if ([queues, workers, settings, schedules, streams, groups].every((list) => list.length === 0))
    return nothing(workers)
  const withSettings = settings.filter((one) => settingsText(one) !== '')
  const parts = [
    queues.length === 0 ? nothing(workers) : formatTable(queueColumns(view), queues, view),
    workers.length === 0 ? 'No workers.' : formatTable(workerColumns(view), workers, view),
  ]
  if (withSettings.length > 0) parts.push(formatTable(SETTINGS_COLUMNS, withSettings, view))
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

const SETTINGS_COLUMNS: readonly TableColumn<QueueSettingsStatus>[] = [
  { title: 'QUEUE', cell: ({ queue }) => queue },
  { title: 'SETTINGS', cell: settingsText },
]

function queueColumns({ paint }: View): readonly TableColumn<QueueStatus>[] {
  return [
    { title: 'QUEUE', cell: (queue) => queue.queue },
    { title: 'READY', align: 'right', cell: (queue) => queue.ready },
    { title: 'HELD', align: 'right', optional: true, cell: (queue) => (queue.held === 0 ? null : queue.held) },
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

function workerColumns({ paint }: View): readonly TableColumn<WorkerStatus>[] {
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
