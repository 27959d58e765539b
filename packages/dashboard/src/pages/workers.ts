import type { InFlightMessage, WorkerStatus } from 'sluice'
import type { Context, Page } from '../page.ts'
import { rowsOf } from '../read/rows.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { pagesOf } from '../view/pager.ts'
import { badge, count, instant, link, NONE, section } from '../view/parts.ts'
import { type Column, table } from '../view/table.ts'
import { durationWords, number } from '../view/text.ts'

/** Worker processes, and what each has in flight. */
export const workersPage: Page = async ({ operate, paths, query }) => {
  const rows = rowsOf(await operate.workers.list(), query.get('page'))
  const inFlight = await operate.workers.inFlight({ limit: MOST })
  const note = inFlight.length < MOST ? NOTHING : html`<p class="note">The ${MOST} that have run for longest.</p>`
  const body = html`<h1>Workers</h1>
    ${section('workers', 'Processes', html`${processes(rows.rows)}${pagesOf(rows, (page) => paths.to('workers', { page }))}`)}
    ${section('in-flight', 'In flight, the longest first', html`${inHand(inFlight, paths)}${note}`)}`
  return { title: 'Workers', place: 'workers', body }
}

const MOST = 200

function processes(workers: readonly WorkerStatus[]): Html {
  const columns: readonly Column<WorkerStatus>[] = [
    { title: 'Worker', cell: ({ name }) => name },
    { title: 'State', cell: ({ alive }) => (alive ? badge('alive', 'good') : badge('gone', 'bad')) },
    { title: 'In flight', align: 'end', cell: ({ inFlight }) => count(inFlight) },
    { title: 'Seen', align: 'end', cell: ({ seenAt, seenAgoMs }) => instant(seenAt, seenAgoMs) },
    {
      title: 'Started',
      align: 'end',
      cell: ({ startedAt, seenAt, seenAgoMs }) =>
        instant(startedAt, seenAt.getTime() + seenAgoMs - startedAt.getTime()),
    },
    { title: 'Host', cell: ({ host, pid }) => html`${host} <span class="zero">${pid}</span>` },
    { title: 'Version', cell: ({ version }) => version },
    { title: 'Queues', wide: true, cell: ({ queues }) => queues.join(', ') },
  ]
  return table(
    'Workers',
    columns,
    workers,
    'No worker is registered. Start one with pipeline(…).handle(…).start(), or sluice work.',
  )
}

function inHand(messages: readonly InFlightMessage[], paths: Context['paths']): Html {
  const columns: readonly Column<InFlightMessage>[] = [
    {
      title: 'Message',
      cell: ({ queue, id, position }) =>
        position === null ? link(paths.message(queue, id), id) : `event ${number(position)}`,
    },
    { title: 'Queue', cell: ({ queue }) => link(paths.queue(queue), queue) },
    { title: 'Running for', align: 'end', cell: ({ runningForMs }) => durationWords(runningForMs) },
    { title: 'Try', align: 'end', cell: ({ attempt }) => attempt },
    { title: 'Handled by', cell: (message) => holderOf(message, paths) },
    { title: 'Leased until', cell: ({ leasedUntil }) => instant(leasedUntil) },
    { title: 'Batch', align: 'end', cell: ({ batch }) => batch ?? NONE },
  ]
  return table('Messages in flight', columns, messages, 'Nothing is in flight.')
}

function holderOf({ worker, workerAlive, claim }: InFlightMessage, paths: Context['paths']): Html {
  if (worker === null) return html`claim ${link(paths.to('claims'), claim)}`
  return html`${worker}${workerAlive === false ? html` ${badge('gone', 'bad')}` : NOTHING}`
}
