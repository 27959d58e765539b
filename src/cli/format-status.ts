import type { Operate, QueueStatus, WorkerStatus } from '../index.ts'
import type { View } from './output.ts'
import { type Column, formatTable } from './table.ts'
import { counted, formatAge, formatAgo, formatDue, printable } from './text.ts'

/** What `sluice status` shows, and prints as JSON. */
export interface Status {
  /** By the database's clock. */
  readonly at: Date
  readonly queues: readonly QueueStatus[]
  readonly workers: readonly WorkerStatus[]
  readonly needsAttention: readonly Attention[]
}

/** Something that an operator should look at, how many messages it concerns, and a sentence about it. */
type Attention =
  | { readonly kind: 'noWorker'; readonly queue: string; readonly messages: number; readonly text: string }
  | { readonly kind: 'deadLetters'; readonly queue: string; readonly messages: number; readonly text: string }
  | { readonly kind: 'workerGone'; readonly worker: string; readonly messages: number; readonly text: string }

/** Reads the status of all queues, or of one, on one connection. */
export async function readStatus(operate: Operate, queue: string | undefined): Promise<Status> {
  const only = queue === undefined ? {} : { queue }
  const at = await operate.now()
  const queues = await operate.queues(only)
  const workers = await operate.workers(only)
  return { at, queues, workers, needsAttention: attentionTo(queues, workers) }
}

/** The status as tables of queues and workers, and what needs attention. */
export function formatStatus({ queues, workers, needsAttention }: Status, view: View): string {
  if (queues.length === 0 && workers.length === 0) return nothing(workers)
  const parts = [
    queues.length === 0 ? nothing(workers) : formatTable(queueColumns(view), queues, view),
    workers.length === 0 ? 'No workers.' : formatTable(workerColumns(view), workers, view),
  ]
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
