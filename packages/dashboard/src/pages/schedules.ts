import type { ScheduleStatus } from 'sluice'
import type { Context, Page } from '../page.ts'
import { errorLine } from '../view/errors.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { badge, count, dueAt, instant, link, NONE, section } from '../view/parts.ts'
import { askButton } from '../view/question.ts'
import { type Column, table } from '../view/table.ts'
import { durationWords, oneLine } from '../view/text.ts'

/** Messages that are enqueued at given times. */
export const schedulesPage: Page = async (context) => {
  const schedules = await context.operate.schedules.list({ limit: MOST })
  const note = schedules.length < MOST ? NOTHING : html`<p class="note">The first ${MOST} by name.</p>`
  const list = table(
    'Schedules',
    columnsOf(context),
    schedules,
    'There are no schedules. Make one with sluice.schedules.set().',
  )
  const body = html`<h1>Schedules</h1>${section('schedules', 'By name', html`${list}${note}`)}`
  return { title: 'Schedules', place: 'schedules', body }
}

const MOST = 200

function columnsOf({ paths, viewer }: Context): readonly Column<ScheduleStatus>[] {
  const acts: Column<ScheduleStatus> = {
    title: 'Actions',
    cell: ({ name, paused }) => actions(paths.schedule(name), paused !== null),
  }
  return [
    { title: 'Schedule', cell: nameOf },
    { title: 'Queue', cell: ({ queue }) => link(paths.queue(queue), queue) },
    { title: 'When', cell: when },
    { title: 'Next', align: 'end', cell: ({ nextAt, nextInMs }) => dueAt(nextAt, nextInMs) },
    { title: 'Last', align: 'end', cell: (schedule) => last(schedule, paths) },
    { title: 'Enqueued', align: 'end', cell: ({ enqueued }) => count(enqueued) },
    { title: 'Left out', align: 'end', cell: ({ skipped }) => count(skipped) },
    ...(viewer.may === 'act' ? [acts] : []),
  ]
}

function nameOf({ name, paused, error }: ScheduleStatus): Html {
  return html`${name} ${paused === null ? NOTHING : html`${badge('paused', 'warn')}<div class="note">${pauseText(paused)}</div>`}
    ${error === null ? NOTHING : html`${badge('fails', 'bad')}<div class="note">${errorLine(error)}</div>`}`
}

/** 'by bob: until the disk is larger' */
function pauseText({ by, reason }: NonNullable<ScheduleStatus['paused']>): string {
  return oneLine([by === null ? [] : `by ${by}`, reason ?? []].flat().join(': '))
}

function when({ cron, everyMs, zone }: ScheduleStatus): Html {
  if (cron === null) return html`every ${everyMs === null ? NONE : durationWords(everyMs)}`
  return html`<code>${cron}</code> <span class="zero">${zone}</span>`
}

function last({ lastAt, lastId, queue }: ScheduleStatus, paths: Context['paths']): Html {
  if (lastAt === null) return NONE
  return html`${instant(lastAt)}${lastId === null ? NOTHING : html` ${link(paths.message(queue, lastId), lastId)}`}`
}

function actions(path: string, isPaused: boolean): Html {
  const change = isPaused ? askButton(`${path}/resume`, 'Resume') : askButton(`${path}/pause`, 'Pause')
  return html`<div class="actions">${askButton(`${path}/run-now`, 'Run now')}${change}</div>`
}
