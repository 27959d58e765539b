import type { LimitStatus, QueueSettingsStatus, QueueStatus, WorkerStatus } from 'sluice'
import type { Context, Page } from '../page.ts'
import type { Findings } from '../read/findings.ts'
import { type Held, readHeldKeys } from '../read/held-keys.ts'
import { activityPart } from '../view/activity.ts'
import { backlogTiles, countsBar, countsNote, countsTiles, isRecent } from '../view/counts.ts'
import { errorLine } from '../view/errors.ts'
import { explanationPart } from '../view/explanation.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { badge, count, dueAt, facts, instant, link, NONE, section, tile } from '../view/parts.ts'
import { askButton } from '../view/question.ts'
import { table } from '../view/table.ts'
import { durationWords, number } from '../view/text.ts'
import { messagesPart } from './messages-part.ts'

/** One queue: its counts, its settings, what holds it up, and its messages. */
export const queuePage: Page = async (context) => {
  const queue = context.param('queue')
  const { operate } = context
  // The counts may be quick: what else the page shows is read meanwhile.
  const counting = context.findings.read(context.report)
  const settings = await operate.queues.settings.get(queue)
  const charts = activityPart(
    await operate.queues.activity({ queue }),
    await operate.queues.backlogHistory({ queue }),
    await operate.now(),
  )
  const explanation = explanationPart('What moves, and what does not', await operate.queues.explain(queue))
  const messages = await messagesPart(queue, context)
  const snapped = await counting
  const { value: found } = snapped
  const status = found?.queues.find((one) => one.queue === queue)
  const held = status === undefined || status.held > 0 ? await readHeldKeys(operate, queue) : []
  const body = html`<div id="head" class="page-head"><h1>${queue}</h1> ${badges(settings, status)}${actions(queue, settings, context)}</div>
    ${pauseSentence(settings, found)}
    ${countsNote(snapped)}
    ${section('totals', 'Messages by state', isRecent(snapped) ? totals(status) : await backlogPart(queue, context))}
    ${charts}${explanation}${settingsPart(settings)}
    ${limitsPart(found?.limits.filter((limit) => limit.queue === queue) ?? [])}
    ${workersPart(found?.workers.filter(({ queues }) => queues.includes(queue)) ?? [])}
    ${heldPart(held, context)}
    ${messages}`
  return { title: queue, place: 'overview', body }
}

function badges(settings: QueueSettingsStatus | undefined, status: QueueStatus | undefined): Html {
  const isPaused = settings?.pausedAt != null
  const isLonely = status !== undefined && status.ready > 0 && status.workers === 0
  return html`${isPaused ? badge('paused', 'warn') : NOTHING}${isLonely ? badge('no worker', 'bad') : NOTHING}`
}

function actions(queue: string, settings: QueueSettingsStatus | undefined, { viewer, paths }: Context): Html {
  if (viewer.may !== 'act') return NOTHING
  const isPaused = settings?.pausedAt != null
  return html`<div class="actions">${askButton(`${paths.queue(queue)}/${isPaused ? 'resume' : 'pause'}`, isPaused ? 'Resume' : 'Pause')}</div>`
}

function pauseSentence(settings: QueueSettingsStatus | undefined, found: Findings | undefined): Html {
  if (settings?.pausedAt == null) return NOTHING
  const { pausedAt, pausedBy, pauseReason } = settings
  const agoMs = found === undefined ? null : Math.max(0, found.at.getTime() - pausedAt.getTime())
  return html`<p id="banner" class="banner">Paused ${instant(pausedAt, agoMs)}${pausedBy === null ? NOTHING : html` by ${pausedBy}`}${
    pauseReason === null ? '.' : html`: ${pauseReason}`
  }</p>`
}

/** While there are no recent exact counts. */
async function backlogPart(queue: string, { backlogs, report }: Context): Promise<Html> {
  const { value } = await backlogs.read(report)
  const backlog = value?.find((one) => one.queue === queue)
  if (value === undefined) return NOTHING
  return backlog === undefined ? NO_QUEUE : backlogTiles(backlog)
}

const NO_QUEUE = html`<p class="empty">The queue has no messages, dead letters or workers.</p>`

function totals(status: QueueStatus | undefined): Html {
  if (status === undefined) return NO_QUEUE
  const { nextDueAt, nextDueInMs } = status
  const more = html`${tile('Next due', dueAt(nextDueAt, nextDueInMs))}${tile('Workers', count(status.workers))}`
  return html`${countsBar(status)}${countsTiles(status, status.oldestReadyAgeMs, more)}`
}

function settingsPart(settings: QueueSettingsStatus | undefined): Html {
  if (settings === undefined) return NOTHING
  const time = (ms: number | null) => (ms === null ? null : durationWords(ms))
  const rate = (value: QueueSettingsStatus['rate']) =>
    value === null
      ? null
      : `${number(value.limit)} per ${durationWords(value.perMs)}${value.burst === null ? '' : `, burst ${value.burst}`}`
  const pairs = [
    ['Delay', time(settings.delayMs)],
    ['Time to live', time(settings.ttlMs)],
    ['On expiry', settings.onExpiry],
    ['Attempts', settings.maxAttempts],
    ['Retry', settings.retry === null ? null : JSON.stringify(settings.retry)],
    ['Largest payload', settings.payloadLimitBytes === null ? null : `${number(settings.payloadLimitBytes)} bytes`],
    ['History', time(settings.historyMs)],
    ['Dead letters kept', time(settings.deadLetterRetentionMs)],
    ['Rate', rate(settings.rate)],
    ['Rate per tenant', rate(settings.tenantRate)],
    ['Concurrency', settings.concurrency],
    ['Concurrency per tenant', settings.tenantConcurrency],
  ] as const
  if (pairs.every(([, value]) => value === null)) return NOTHING
  return section('settings', 'Settings', facts(pairs))
}

function limitsPart(limits: readonly LimitStatus[]): Html {
  if (limits.length === 0) return NOTHING
  const shown = limits.toSorted((a, b) => b.ready - a.ready).slice(0, MOST)
  const more =
    limits.length > MOST
      ? html`<p class="note">The ${MOST} with most messages of ${number(limits.length)}.</p>`
      : NOTHING
  const columns = [
    { title: 'Tenant', cell: ({ tenant }: LimitStatus) => tenant ?? html`<em>the queue</em>` },
    { title: 'In flight', align: 'end', cell: ({ inFlight, concurrency }: LimitStatus) => used(inFlight, concurrency) },
    {
      title: 'May begin now',
      align: 'end',
      cell: ({ tokens }: LimitStatus) => (tokens === null ? NONE : number(Math.floor(tokens))),
    },
    {
      title: 'Rate',
      align: 'end',
      cell: ({ rate, rateIntervalMs }: LimitStatus) =>
        rate === null ? NONE : `${number(rate)} per ${durationWords(rateIntervalMs)}`,
    },
    { title: 'Ready', align: 'end', cell: ({ ready }: LimitStatus) => count(ready) },
  ] as const
  return section('limits', 'Limits', html`${table('Limits', columns, shown, '')}${more}`)
}

const MOST = 50

function used(inFlight: number, concurrency: number | null): Html {
  if (concurrency === null) return html`${count(inFlight)}`
  const text = `${number(inFlight)} of ${number(concurrency)}`
  return inFlight >= concurrency ? html`<span class="tone-warn">${text}</span>` : html`${text}`
}

function workersPart(workers: readonly WorkerStatus[]): Html {
  if (workers.length === 0) return NOTHING
  const columns = [
    { title: 'Worker', cell: ({ name }: WorkerStatus) => name },
    { title: 'State', cell: ({ alive }: WorkerStatus) => (alive ? badge('alive', 'good') : badge('gone', 'bad')) },
    { title: 'In flight, all queues', align: 'end', cell: ({ inFlight }: WorkerStatus) => count(inFlight) },
    { title: 'Seen', align: 'end', cell: ({ seenAt, seenAgoMs }: WorkerStatus) => instant(seenAt, seenAgoMs) },
  ] as const
  return section('workers', 'Workers', table('Workers of the queue', columns, workers.slice(0, MOST), ''))
}

function heldPart(held: readonly Held[], { paths }: Context): Html {
  if (held.length === 0) return NOTHING
  const columns = [
    { title: 'Ordering key', cell: ({ key }: Held) => key },
    { title: 'Waits for', cell: ({ queue, holder }: Held) => link(paths.message(queue, holder), holder) },
    { title: 'State', cell: ({ state }: Held) => (state === null ? NONE : badge(state)) },
    { title: 'Until', cell: ({ dueAt: at, dueInMs }: Held) => dueAt(at, dueInMs) },
    { title: 'Waiting', align: 'end', cell: ({ waiting }: Held) => count(waiting) },
    { title: 'Error', wide: true, cell: ({ error }: Held) => (error === null ? NONE : errorLine(error)) },
  ] as const
  const note = html`<p class="note">Of the newest 200 messages that wait for an earlier one with their key.</p>`
  return section('held', 'Held keys', html`${table('Held keys', columns, held, '')}${note}`)
}
