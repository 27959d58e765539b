import { type RowOptions, SCHEDULED_OPTIONS } from '../../message-options.ts'
import { dateOrNull, microseconds } from '../dates.ts'
import { optionColumn } from '../enqueue/option-column.ts'
import { bool, type Columns, date, duration, jsonText, msUntil, nullable, number, shape, text } from '../shape.ts'
import { type Execute, numberOf, type Row, statement, textOrNull } from '../statement.ts'

/**
 * A schedule: a row of `sluice.schedules`. It also has the options of its messages, as in {@link ScheduleDefinition},
 * with times in milliseconds: `type`, `delayMs`. Null: none, or as the queue or the pipeline says.
 */
export interface ScheduleStatus extends ScheduledOptions {
  /** Its name. */
  readonly name: string
  /** The queue that gets its messages. */
  readonly queue: string
  /** Its cron expression; null: it has an interval. */
  readonly cron: string | null
  /** Its interval in milliseconds; null: it has a cron expression. */
  readonly everyMs: number | null
  /** The time zone of the cron expression. */
  readonly zone: string
  /** The next occurrence; null: it is paused, its next occurrence is not computed yet, or there is none any more. */
  readonly nextAt: Date | null
  /** In how long that is; negative if it is late. */
  readonly nextInMs: number | null
  /** The last occurrence that was enqueued; null: none has been. */
  readonly lastAt: Date | null
  /** When that was enqueued. */
  readonly lastEnqueuedAt: Date | null
  /** The id of its message. */
  readonly lastId: string | null
  /** How many messages it has enqueued. */
  readonly enqueued: number
  /** How many occurrences were missed or left out. Long gaps are counted to 1,000. */
  readonly skipped: number
  /** Why its next occurrence could not be computed or enqueued. */
  readonly error: string | null
  /** Since when it is paused, by whom and why; null: it is not. */
  readonly paused: { readonly at: Date; readonly by: string | null; readonly reason: string | null } | null
  /** What to do about missed occurrences: 'skip', 'last' or 'all'. */
  readonly missed: string
  /** How late an occurrence may be without being missed, in milliseconds. */
  readonly graceMs: number
  /** How many missed occurrences are enqueued at most, and how old they may be in milliseconds. */
  readonly catchUp: { readonly most: number; readonly withinMs: number }
  /** Whether it enqueues while its last message is queued or in flight. */
  readonly overlap: boolean
  /** The payload of its messages, as JSON text. */
  readonly payloadJson: string
  /** Their headers, as JSON text. */
  readonly headersJson: string
  /** When its definition was changed last. */
  readonly changedAt: Date
  /** The login that changed it. */
  readonly changedBy: string | null
}

type ScheduledOptions = Omit<RowOptions, 'headers' | 'dueAt'>

/** Schedules by name, or those of one queue, or the one with a name. */
export async function readSchedules(
  execute: Execute,
  match: { readonly queue: string | null; readonly name: string | null; readonly limit: number },
): Promise<readonly ScheduleStatus[]> {
  return (await execute(SCHEDULES, [match.queue, match.name, match.limit])).map(SCHEDULE.read)
}

const SCHEDULE = shape<ScheduleStatus>({
  name: text(),
  queue: text(),
  cron: nullable.text(),
  everyMs: nullable.duration(),
  zone: text(),
  nextAt: nullable.date(),
  nextInMs: msUntil(),
  lastAt: nullable.date(),
  lastEnqueuedAt: nullable.date(),
  lastId: nullable.bigint(),
  enqueued: number(),
  skipped: number(),
  error: nullable.text(),
  paused: { select: pausedColumns, read: pausedOf },
  missed: text(),
  graceMs: duration(),
  catchUp: { select: catchUpColumns, read: catchUpOf },
  overlap: bool(),
  payloadJson: jsonText('payload'),
  headersJson: jsonText('headers'),
  ...optionColumns(),
  changedAt: date(),
  changedBy: nullable.text(),
})

function optionColumns(): Columns<ScheduledOptions> {
  const options = SCHEDULED_OPTIONS.filter(({ name }) => name !== 'headers')
  return Object.fromEntries(
    options.map(({ rowName, option }) => [rowName, optionColumn(option)]),
  ) as Columns<ScheduledOptions>
}

function pausedColumns(of: string): string {
  return `${microseconds(`${of}.paused_at`)} AS paused_at, ${of}.paused_by, ${of}.pause_reason`
}

function pausedOf(row: Row): ScheduleStatus['paused'] {
  const at = dateOrNull(row, 'paused_at')
  return at && { at, by: textOrNull(row, 'paused_by'), reason: textOrNull(row, 'pause_reason') }
}

function catchUpColumns(of: string): string {
  return `${of}.catch_up_most, (extract(epoch FROM ${of}.catch_up_within) * 1000.0) AS catch_up_ms`
}

function catchUpOf(row: Row): ScheduleStatus['catchUp'] {
  return { most: numberOf(row, 'catch_up_most'), withinMs: numberOf(row, 'catch_up_ms') }
}

const SCHEDULES = statement(
  'operate_schedules',
  `
SELECT ${SCHEDULE.columns('s')}
FROM sluice.schedules s
WHERE ($1::text IS NULL OR s.queue = $1::text) AND ($2::text IS NULL OR s.name = $2::text)
ORDER BY s.name LIMIT $3::integer`,
)
