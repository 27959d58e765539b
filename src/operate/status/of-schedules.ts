import { shortened } from '../../basics/sentences.ts'
import { formatAge } from '../../basics/spans.ts'
import type { ScheduleStatus } from '../../table/operate/schedule-status.ts'
import type { Attention } from './attention.ts'

/** Of a schedule that enqueues nothing although it should. */
export function attentionToSchedule({ name, error, nextInMs }: ScheduleStatus): readonly Attention[] {
  const about = { severity: 'wrong', subject: `schedule ${name}`, schedule: name, messages: 0 } as const
  const remedy = `npx sluice explain --schedule ${name}`
  if (error !== null) return [{ ...about, kind: 'schedules.failed', text: `fails: ${shortened(error)}`, remedy }]
  if (nextInMs === null || nextInMs > -LATE_MS) return []
  const text = `late by ${formatAge(-nextInMs)}: no worker enqueues it`
  return [{ ...about, kind: 'schedules.overdue', text, remedy }]
}

/** The longest poll interval: with a worker, an occurrence is enqueued by then. */
const LATE_MS = 60_000
