import { durationWords } from '../../basics/time/duration-words.ts'
import type { ScheduleStatus } from '../../index.ts'
import type { View } from '../output.ts'
import { formatTable, type TableColumn } from './table.ts'
import { formatDue } from './text.ts'

/** Schedules as a table. */
export function formatSchedules(schedules: readonly ScheduleStatus[], view: View): string {
  return formatTable(columns(view), schedules, view)
}

function columns({ paint }: View): readonly TableColumn<ScheduleStatus>[] {
  return [
    { title: 'SCHEDULE', cell: (schedule) => schedule.name },
    { title: 'QUEUE', cell: (schedule) => schedule.queue },
    { title: 'WHEN', cell: whenText },
    {
      title: 'NEXT',
      align: 'right',
      cell: nextText,
      paint: (text, { error, paused }) =>
        error !== null ? paint('red', text) : paused !== null ? paint('yellow', text) : text,
    },
    { title: 'ENQUEUED', align: 'right', cell: (schedule) => schedule.enqueued },
    { title: 'SKIPPED', align: 'right', cell: (schedule) => schedule.skipped },
  ]
}

/** '0 3 * * * Europe/Berlin', 'every 15m' */
function whenText({ cron, everyMs, zone }: ScheduleStatus): string {
  if (cron === null) return `every ${durationWords(everyMs ?? 0)}`
  return zone === 'UTC' ? cron : `${cron} ${zone}`
}

function nextText({ error, paused, nextInMs }: ScheduleStatus): string | null {
  if (paused !== null) return 'paused'
  if (error !== null) return 'failed'
  if (nextInMs === null) return null
  return nextInMs <= 0 ? 'now' : formatDue(nextInMs)
}
