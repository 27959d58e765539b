import { agoWords, durationWords } from '../../basics/time/duration-words.ts'
import type { Attention, QueueSettingsStatus, QueueStatus, Status, WorkerStatus } from '../../index.ts'
import type { View } from '../output.ts'
import { settingsText } from './queue-settings.ts'
import { formatSchedules } from './schedules.ts'
import { formatGroups, formatStreams } from './streams.ts'
import { formatTable, type TableColumn } from './table.ts'
import { formatDue, printable } from './text.ts'

/** The status as tables of queues, workers, settings and schedules, and what needs attention. */
export function formatStatus(status: Status, view: View): string {
  const { queues, workers, settings, schedules, streams, groups, attention } = status
  if ([queues, workers, settings, schedules, streams, groups].every((list) => list.length === 0))
    return nothing(workers)
  const withSettings = settings.filter((one) => settingsText(one) !== '')
  const parts = [
    queues.length === 0 ? nothing(workers) : formatTable(queueColumns(view, queues), queues, view),
    workers.length === 0 ? 'No workers.' : formatTable(workerColumns(view), workers, view),
  ]
  if (withSettings.length > 0) parts.push(formatTable(SETTINGS_COLUMNS, withSettings, view))
  if (schedules.length > 0) parts.push(formatSchedules(schedules, view))
  if (streams.length > 0) parts.push(formatStreams(streams, view))
  if (groups.length > 0) parts.push(formatGroups(groups, view))
  if (attention.length > 0) {
    const lines = attention.flatMap((one) => attentionLines(one, view))
    parts.push([view.paint('yellow', 'needs attention'), ...lines].join('\n'))
  }
  return parts.join('\n\n')
}

function attentionLines({ severity, subject, text, remedy }: Attention, { paint }: View): readonly string[] {
  const line = printable(`  ${subject}: ${text}`)
  const lines = [severity === 'wrong' ? paint('red', line) : line]
  return remedy === null ? lines : [...lines, `    → ${printable(remedy)}`]
}

/** A vanished worker is listed in the other table, but its queues need not exist. */
function nothing(workers: readonly WorkerStatus[]): string {
  return workers.length === 0 ? 'No messages, dead letters or workers.' : 'No messages or dead letters.'
}

const SETTINGS_COLUMNS: readonly TableColumn<QueueSettingsStatus>[] = [
  { title: 'QUEUE', cell: ({ queue }) => queue },
  { title: 'SETTINGS', cell: settingsText },
]

function queueColumns({ paint }: View, queues: readonly QueueStatus[]): readonly TableColumn<QueueStatus>[] {
  const held: TableColumn<QueueStatus> = { title: 'HELD', align: 'right', cell: (queue) => queue.held }
  return [
    { title: 'QUEUE', cell: (queue) => queue.queue },
    { title: 'READY', align: 'right', cell: (queue) => queue.ready },
    ...(queues.some((queue) => queue.held > 0) ? [held] : []),
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
      cell: (queue) => (queue.oldestReadyAgeMs === null ? null : durationWords(queue.oldestReadyAgeMs)),
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
    { title: 'SEEN', align: 'right', cell: (worker) => agoWords(worker.seenAgoMs) },
    { title: 'QUEUES', cell: (worker) => worker.queues.join(', ') },
  ]
}
