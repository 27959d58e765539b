import { durationWords } from '../../basics/time/duration-words.ts'
import { shortened } from '../../basics/words/sentences.ts'
import type { ScheduleStatus } from '../../table/operate/schedule-status.ts'
import { AFTER_MS } from './after-ms.ts'
import type { Attention } from './attention.ts'

/** Of a schedule that enqueues nothing although it should. */
export function attentionToSchedule({ name, error, paused, nextInMs }: ScheduleStatus): readonly Attention[] {
  if (paused !== null) return []
  const about = { severity: 'wrong', subject: `schedule ${name}`, schedule: name, messages: 0 } as const
  const remedy = `npx sluice explain --schedule ${name}`
  if (error !== null) return [{ ...about, kind: 'schedules.failed', text: `fails: ${shortened(error)}`, remedy }]
  if (nextInMs === null || nextInMs > -AFTER_MS['schedules.overdue']) return []
  const text = `late by ${durationWords(-nextInMs)}: no worker enqueues it`
  return [{ ...about, kind: 'schedules.overdue', text, remedy }]
}
