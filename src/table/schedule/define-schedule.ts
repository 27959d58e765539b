import { separated } from '../../basics/words/words.ts'
import { SCHEDULED_OPTIONS } from '../../message-options.ts'
import { numeric, sqlTypeOf } from '../enqueue/insert-one.ts'
import type { InsertRow } from '../enqueue/insert-row.ts'
import { booleanOf, type Execute, only, type Row, statement, textOf, textOrNull } from '../statement.ts'
import { instantOrNull } from './run-schedules.ts'

/** What defining a schedule has done. */
export type ScheduleOutcome = 'created' | 'changed' | 'unchanged'

/** The columns of a schedule that are chosen. */
export interface ScheduleParams {
  readonly name: string
  readonly queue: string
  readonly timing: { readonly cron: string | null; readonly everyMs: number | null; readonly zone: string }
  readonly missed: string
  readonly graceMs: number
  readonly catchUpMost: number
  readonly catchUpMs: number
  readonly overlap: boolean
  readonly message: InsertRow
}

/** Defines a schedule, or changes it. `nextMs` counts if its times are new. */
export async function defineSchedule(
  execute: Execute,
  { name, queue, timing, missed, graceMs, catchUpMost, catchUpMs, overlap, message }: ScheduleParams,
  nextMs: number | null,
): Promise<ScheduleOutcome> {
  const [row] = await execute(DEFINE, [
    ...[name, queue, message.payload, timing.cron, numeric(timing.everyMs), timing.zone, missed],
    ...[numeric(graceMs), numeric(catchUpMost), numeric(catchUpMs), String(overlap)],
    ...[instantOrNull(nextMs), ...SCHEDULED_OPTIONS.map(({ rowName }) => numeric(message[rowName]))],
  ])
  const outcome = row && textOf(row, 'outcome')
  if (outcome === 'created' || outcome === 'changed' || outcome === 'unchanged') return outcome
  throw new TypeError(`outcome of a schedule: ${outcome}`)
}

/** Pauses a schedule. False: it is paused already. */
export async function pauseSchedule(
  execute: Execute,
  name: string,
  reason: string | null,
  by: string | null,
): Promise<boolean> {
  return done(await execute(PAUSE, [name, reason, by]))
}

/** Resumes a schedule. False: it is not paused. */
export async function resumeSchedule(execute: Execute, name: string): Promise<boolean> {
  return done(await execute(RESUME, [name]))
}

/** Deletes a schedule. False: there is none. */
export async function deleteSchedule(execute: Execute, name: string): Promise<boolean> {
  return done(await execute(DELETE, [name]))
}

/** Enqueues a message of a schedule now, and returns its id; null if the last one is still there. */
export async function runScheduleNow(execute: Execute, name: string): Promise<string | null> {
  return textOrNull(only(await execute(RUN_NOW, [name])), 'id')
}

function done(rows: readonly Row[]): boolean {
  return booleanOf(only(rows), 'done')
}

/** An argument of sluice.schedule, which takes intervals. */
function argument({ name, option }: (typeof SCHEDULED_OPTIONS)[number], at: number): string {
  const text = `$${FIRST_OPTION + at}::pg_catalog.text`
  const value =
    option.kind === 'time'
      ? `${text}::double precision * interval '1 millisecond'`
      : `${text}::${option.kind === 'count' ? 'integer' : sqlTypeOf(option)}`
  return `${separated(name, '_')} => ${value}`
}

/** The first parameter that is an option of the messages. */
const FIRST_OPTION = 13

// Texts are the only parameters that all accepted clients send alike.
const DEFINE = statement(
  'schedule_define',
  `
SELECT sluice.schedule(
  name => $1::pg_catalog.text,
  queue => $2::pg_catalog.text,
  payload => $3::pg_catalog.text::pg_catalog.jsonb,
  cron => $4::pg_catalog.text,
  every => $5::pg_catalog.text::double precision * interval '1 millisecond',
  zone => $6::pg_catalog.text,
  missed => $7::pg_catalog.text,
  grace => $8::pg_catalog.text::double precision * interval '1 millisecond',
  catch_up_most => $9::pg_catalog.text::integer,
  catch_up_within => $10::pg_catalog.text::double precision * interval '1 millisecond',
  overlap => $11::pg_catalog.text::boolean,
  next_at => $12::pg_catalog.text::pg_catalog.timestamptz,
  ${SCHEDULED_OPTIONS.map(argument).join(',\n  ')}
) AS outcome`,
)

const PAUSE = statement(
  'schedule_pause',
  `
SELECT sluice.schedule_pause($1::pg_catalog.text, reason => $2::pg_catalog.text, paused_by => $3::pg_catalog.text) AS done`,
)

const RESUME = statement('schedule_resume', 'SELECT sluice.schedule_resume($1::pg_catalog.text) AS done')

const DELETE = statement('schedule_delete', 'SELECT sluice.schedule_delete($1::pg_catalog.text) AS done')

const RUN_NOW = statement(
  'schedule_run_now',
  'SELECT sluice.schedule_run_now($1::pg_catalog.text)::pg_catalog.text AS id',
)
