import type { QueueStatus, WorkerStatus } from '../table/inspect.ts'
import { formatAge, formatAgo, formatDue } from './format-age.ts'
import { type Column, formatTable } from './format-table.ts'
import { printable } from './printable.ts'
import type { Status } from './status.ts'
import type { View } from './view.ts'

/** The status as tables of queues and workers, and what needs attention. */
export function formatStatus({ queues, workers, needsAttention }: Status, view: View): string {
  const parts = [
    queues.length === 0 ? 'No messages, dead letters or workers.' : formatTable(queueColumns(view), queues, view),
    workers.length === 0 ? 'No workers.' : formatTable(workerColumns(view), workers, view),
  ]
  if (needsAttention.length > 0) {
    const list = needsAttention.map(({ text }) => `  ${printable(text)}`)
    parts.push([view.paint('yellow', 'needs attention'), ...list].join('\n'))
  }
  return parts.join('\n\n')
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

/** It was due later when it was counted. */
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
