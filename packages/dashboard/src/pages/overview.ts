import type { QueueStatus } from 'sluice'
import type { Context, Page } from '../page.ts'
import type { Paths } from '../paths.ts'
import { type Attention, attentionTo } from '../read/attention.ts'
import type { Findings } from '../read/findings.ts'
import { rowsOf } from '../read/rows.ts'
import { overviewCharts } from '../view/activity.ts'
import { boundedNote, countsNote, countsTiles, isRecent } from '../view/counts.ts'
import { errorLine } from '../view/errors.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { count, link, section, tile } from '../view/parts.ts'
import { backlogColumns, byUrgency, nameColumns, type QueueFilter, queuesPart, statusColumns } from './queue-tables.ts'
import { groupsTable, streamsTable } from './stream-tables.ts'

/** All queues and streams, and what needs attention. */
export const overviewPage: Page = async (context) => {
  const snapped = await context.findings.read(context.report)
  const body = html`<h1>Overview</h1>
    ${countsNote(snapped)}
    ${snapped.value === undefined ? await withoutCounts(context) : await whole(snapped.value, isRecent(snapped), context)}`
  return { title: 'Overview', place: 'overview', body }
}

async function whole(found: Findings, hasRecent: boolean, context: Context): Promise<Html> {
  const { operate, paths } = context
  const { streams, groups } = found
  const attention = attentionTo(found, paths)
  const urgent = new Set(attention.map(({ name }) => name))
  return html`
    ${section('totals', 'All queues', html`${totals(found)}${overviewCharts(found.activity, await operate.queues.backlogHistory(), found.at)}`)}
    ${section('attention', 'Needs attention', attentionList(attention))}
    ${hasRecent ? exactQueues(found, urgent, context) : await withoutCounts(context)}
    ${streams.length === 0 ? NOTHING : section('streams', 'Streams', streamsTable(streams.slice(0, MOST_STREAMS)))}
    ${groups.length === 0 ? NOTHING : section('groups', 'Groups', html`${groupsTable(groups.slice(0, MOST_STREAMS), paths)}${moreStreams(found, paths)}`)}`
}

function exactQueues(found: Findings, urgent: ReadonlySet<string>, { paths, query }: Context): Html {
  const filter = filterOf(query)
  const queues = found.queues.filter(({ queue }) => matches(queue, filter))
  const rows = rowsOf(byUrgency(queues, urgent), query.get('page'))
  return section('queues', 'Queues', queuesPart(statusColumns(paths), rows, filter, paths))
}

/** While there are no recent exact counts: those that end at 10,000, or the names alone. */
async function withoutCounts({ operate, backlogs, report, paths, query }: Context): Promise<Html> {
  const filter = filterOf(query)
  const { value } = await backlogs.read(report)
  if (value !== undefined) {
    const found = value.filter(({ queue }) => matches(queue, filter))
    const list = queuesPart(backlogColumns(paths), rowsOf(found, query.get('page')), filter, paths)
    return section('queues', 'Queues', html`${list}${boundedNote()}`)
  }
  const names = (await operate.queues.names()).filter((name) => matches(name, filter))
  return section('queues', 'Queues', queuesPart(nameColumns(paths), rowsOf(names, query.get('page')), filter, paths))
}

function filterOf(query: URLSearchParams): QueueFilter {
  return { name: query.get('queue')?.slice(0, 100) || undefined }
}

function matches(queue: string, { name }: QueueFilter): boolean {
  return name === undefined || queue.toLowerCase().includes(name.toLowerCase())
}

function moreStreams({ streams, groups }: Findings, paths: Paths): Html {
  if (streams.length <= MOST_STREAMS && groups.length <= MOST_STREAMS) return NOTHING
  return html`<p class="note">The first ${MOST_STREAMS} by name. ${link(paths.to('streams'), 'All streams and groups')}</p>`
}

const MOST_STREAMS = 20

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
