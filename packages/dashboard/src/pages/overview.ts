import type { QueueStatus } from 'sluice'
import type { Context, Page } from '../page.ts'
import { type Attention, attentionTo } from '../read/attention.ts'
import type { Findings } from '../read/findings.ts'
import { handledChart } from '../view/activity.ts'
import { countsBar, countsNote, countsTiles } from '../view/counts.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { errorLine } from '../view/json.ts'
import { badge, count, dueAt, duration, link, section, tile } from '../view/parts.ts'
import { type Column, table } from '../view/table.ts'
import { groupsTable, streamsTable } from './stream-tables.ts'

/** All queues and streams, and what needs attention. */
export const overviewPage: Page = async (context) => {
  const snapped = await context.findings.read()
  const body = html`<h1>Overview</h1>
    ${countsNote(snapped)}
    ${snapped.value === undefined ? await namesOnly(context) : whole(snapped.value, context)}`
  return { title: 'Overview', place: 'overview', body }
}

function whole(found: Findings, { paths }: Context): Html {
  const { queues, streams, groups } = found
  return html`
    ${section('totals', 'All queues', html`${totals(found)}${handledChart(found.activity, found.at)}`)}
    ${section('attention', 'Needs attention', attentionList(attentionTo(found, paths)))}
    ${section('queues', 'Queues', table('Queues', queueColumns(paths), queues, 'No queue has messages, dead letters or workers.'))}
    ${streams.length === 0 ? NOTHING : section('streams', 'Streams', streamsTable(streams))}
    ${groups.length === 0 ? NOTHING : section('groups', 'Groups', groupsTable(groups, paths))}`
}

async function namesOnly({ operate, paths }: Context): Promise<Html> {
  const columns = [{ title: 'Queue', cell: (name: string) => link(paths.queue(name), name) }]
  const names = await operate.queues.names()
  return section('queues', 'Queues', table('Queues', columns, names, 'No queue has messages, dead letters or workers.'))
}

function totals({ queues, workers }: Findings): Html {
  const sum = (of: (queue: QueueStatus) => number) => queues.reduce((total, queue) => total + of(queue), 0)
  const counts = {
    ready: sum(({ ready }) => ready),
    held: sum(({ held }) => held),
    scheduled: sum(({ scheduled }) => scheduled),
    retrying: sum(({ retrying }) => retrying),
    inFlight: sum(({ inFlight }) => inFlight),
    dead: sum(({ dead }) => dead),
  }
  const ages = queues.flatMap(({ oldestReadyAgeMs }) => oldestReadyAgeMs ?? [])
  const alive = workers.filter((worker) => worker.alive).length
  return countsTiles(counts, ages.length === 0 ? null : Math.max(...ages), tile('Workers', count(alive)))
}

function attentionList(all: readonly Attention[]): Html {
  if (all.length === 0) return html`<p class="empty">Nothing needs attention.</p>`
  const items = all
    .slice(0, MOST)
    .map(
      ({ tone, name, text, href }) =>
        html`<li class="${`tone-${tone}`}"><a href="${href}">${name}</a> <span>${errorLine(text)}</span></li>`,
    )
  const more = all.length > MOST ? html`<li>and ${all.length - MOST} more</li>` : NOTHING
  return html`<ul class="attention">${items}${more}</ul>`
}

const MOST = 20

function queueColumns(paths: Context['paths']): readonly Column<QueueStatus>[] {
  return [
    {
      title: 'Queue',
      cell: ({ queue, pausedAt }) =>
        html`${link(paths.queue(queue), queue)} ${pausedAt === null ? NOTHING : badge('paused', 'warn')}`,
    },
    { title: 'Share', cell: countsBar },
    { title: 'Ready', align: 'end', cell: ({ ready }) => count(ready) },
    { title: 'Oldest', align: 'end', cell: ({ oldestReadyAgeMs }) => duration(oldestReadyAgeMs) },
    { title: 'In flight', align: 'end', cell: ({ inFlight }) => count(inFlight) },
    { title: 'Held', align: 'end', cell: ({ held }) => count(held) },
    { title: 'Retrying', align: 'end', cell: ({ retrying }) => count(retrying) },
    { title: 'Scheduled', align: 'end', cell: ({ scheduled }) => count(scheduled) },
    { title: 'Next due', align: 'end', cell: ({ nextDueAt, nextDueInMs }) => dueAt(nextDueAt, nextDueInMs) },
    {
      title: 'Dead',
      align: 'end',
      cell: ({ queue, dead }) => (dead === 0 ? count(0) : link(paths.dead({ queue }), count(dead, 'bad'))),
    },
    {
      title: 'Workers',
      align: 'end',
      cell: ({ workers, ready }) =>
        workers === 0 && ready > 0 ? html`<span class="tone-bad">0</span>` : count(workers),
    },
  ]
}
