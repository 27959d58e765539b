import type { QueueBacklog, QueueStatus } from 'sluice'
import type { Paths } from '../paths.ts'
import type { Rows } from '../read/rows.ts'
import { countsBar } from '../view/counts.ts'
import { filterForm, textField } from '../view/filter.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { pagesOf } from '../view/pager.ts'
import { badge, bounded, count, dueAt, duration, link } from '../view/parts.ts'
import { type Column, table } from '../view/table.ts'

/** Which queues a list shows. */
export interface QueueFilter {
  /** A part of their names; undefined: all. */
  readonly name: string | undefined
}

/** A list of queues with its filter and the links to its other pages. */
export function queuesPart<Row>(
  columns: readonly Column<Row>[],
  rows: Rows<Row>,
  { name }: QueueFilter,
  paths: Paths,
): Html {
  const isLong = rows.pages > 1 || name !== undefined
  const ifEmpty = name === undefined ? 'No queue has messages, dead letters or workers.' : 'No queue has this name.'
  return html`${isLong ? filterForm(paths.to('overview'), [textField('queue', 'Name contains', name)]) : NOTHING}
    ${table('Queues', columns, rows.rows, ifEmpty)}
    ${pagesOf(rows, (page) => paths.to('overview', { queue: name, page }))}`
}

/** Those that an operator should look at come first, and else the order is that of names. */
export function byUrgency(queues: readonly QueueStatus[], urgent: ReadonlySet<string>): readonly QueueStatus[] {
  return queues.toSorted((a, b) => Number(urgent.has(b.queue)) - Number(urgent.has(a.queue)))
}

/** With exact counts. */
export function statusColumns(paths: Paths): readonly Column<QueueStatus>[] {
  return [
    { title: 'Queue', cell: ({ queue, pausedAt }) => nameCell(queue, pausedAt, paths) },
    { title: 'Share', cell: countsBar },
    { title: 'Ready', align: 'end', cell: ({ ready }) => count(ready) },
    { title: 'Oldest', align: 'end', cell: ({ oldestReadyAgeMs }) => duration(oldestReadyAgeMs) },
    { title: 'In flight', align: 'end', cell: ({ inFlight }) => count(inFlight) },
    { title: 'Held', align: 'end', cell: ({ held }) => count(held) },
    { title: 'Retrying', align: 'end', cell: ({ retrying }) => count(retrying) },
    { title: 'Scheduled', align: 'end', cell: ({ scheduled }) => count(scheduled) },
    { title: 'Next due', align: 'end', cell: ({ nextDueAt, nextDueInMs }) => dueAt(nextDueAt, nextDueInMs) },
    { title: 'Dead', align: 'end', cell: ({ queue, dead }) => deadCell(queue, count(dead, 'bad'), dead, paths) },
    { title: 'Workers', align: 'end', cell: ({ workers, ready }) => workersCell(workers, ready) },
  ]
}

/** With counts that end at 10,000. */
export function backlogColumns(paths: Paths): readonly Column<QueueBacklog>[] {
  return [
    { title: 'Queue', cell: ({ queue, pausedAt }) => nameCell(queue, pausedAt, paths) },
    { title: 'Due', align: 'end', cell: ({ due }) => bounded(due) },
    { title: 'Oldest', align: 'end', cell: ({ oldestDueAgeMs }) => duration(oldestDueAgeMs) },
    { title: 'In flight', align: 'end', cell: ({ inFlight }) => count(inFlight) },
    { title: 'Dead', align: 'end', cell: ({ queue, dead }) => deadCell(queue, bounded(dead, 'bad'), dead, paths) },
    { title: 'Workers', align: 'end', cell: ({ workers, due }) => workersCell(workers, due) },
  ]
}

export function nameColumns(paths: Paths): readonly Column<string>[] {
  return [{ title: 'Queue', cell: (name) => link(paths.queue(name), name) }]
}

function nameCell(queue: string, pausedAt: Date | null, paths: Paths): Html {
  return html`${link(paths.queue(queue), queue)} ${pausedAt === null ? NOTHING : badge('paused', 'warn')}`
}

function deadCell(queue: string, text: Html, dead: number, paths: Paths): Html {
  return dead === 0 ? text : link(paths.dead({ queue }), text)
}

function workersCell(workers: number, due: number): Html {
  return workers === 0 && due > 0 ? html`<span class="tone-bad">0</span>` : count(workers)
}
