import { dateOrNull, microseconds } from '../dates.ts'
import {
  booleanOf,
  type Execute,
  numberOf,
  numberOrNull,
  type Row,
  statement,
  textOf,
  textOrNull,
} from '../statement.ts'

/** A schedule as a worker needs it to compute what is due. Instants in milliseconds since 1970. */
export interface ScheduleRow {
  readonly name: string
  readonly queue: string
  readonly cron: string | null
  readonly everyMs: number | null
  readonly zone: string
  readonly missed: string
  readonly graceMs: number
  readonly catchUpMost: number
  readonly catchUpMs: number
  readonly revision: string
  /** Whether `nextMs` is an occurrence. If not, the next occurrence is the first one after it, and is computed then. */
  readonly planned: boolean
  readonly nextMs: number
  /** The database's clock. */
  readonly nowMs: number
}

/** What a worker has decided about a schedule that is due. Instants in milliseconds since 1970. */
export interface Firing {
  readonly occurrences: readonly number[]
  readonly following: number | null
  readonly skipped: number
}

/** One occurrence that this worker has decided: its message, or null if the last one is still there. */
export interface Fired {
  readonly id: string | null
  readonly occurrence: Date
}

/** The schedules that are due first, in their order, due or not, without those given, as long as they have this revision. */
export async function readNextSchedules(
  execute: Execute,
  limit: number,
  without: readonly Pick<ScheduleRow, 'name' | 'revision'>[],
): Promise<readonly ScheduleRow[]> {
  const keys = without.map(({ name, revision }) => `${name} ${revision}`)
  return (await execute(NEXT, [limit, keys])).map(toSchedule)
}

/**
 * Enqueues occurrences of a schedule and sets the next one, unless another process has done so: then undefined.
 *
 * @param due as it was read
 */
export async function fireSchedule(
  execute: Execute,
  due: ScheduleRow,
  { occurrences, following, skipped }: Firing,
): Promise<readonly Fired[] | undefined> {
  const params = [
    due.name,
    due.revision,
    instant(due.nextMs),
    occurrences.map(instant),
    instantOrNull(following),
    skipped,
  ]
  const rows = await execute(FIRE, params)
  if (rows.length === 0) return undefined
  return rows.flatMap((row) => {
    const occurrence = dateOrNull(row, 'occurrence_us')
    return occurrence === null ? [] : [{ id: textOrNull(row, 'id'), occurrence }]
  })
}

/** Sets the next occurrence of a schedule that has none yet. */
export async function planSchedule(
  execute: Execute,
  { name, revision }: Pick<ScheduleRow, 'name' | 'revision'>,
  nextMs: number | null,
): Promise<void> {
  await execute(PLAN, [name, revision, instantOrNull(nextMs)])
}

/** Records why a schedule could not be planned or enqueued. */
export async function failSchedule(
  execute: Execute,
  { name, revision }: Pick<ScheduleRow, 'name' | 'revision'>,
  error: string,
): Promise<void> {
  await execute(FAIL, [name, revision, error])
}

/** As text, because a number of seconds would lose digits, and instants are compared. */
function instant(ms: number): string {
  return new Date(ms).toISOString()
}

export function instantOrNull(ms: number | null): string | null {
  return ms === null ? null : instant(ms)
}

function toSchedule(row: Row): ScheduleRow {
  return {
    name: textOf(row, 'name'),
    queue: textOf(row, 'queue'),
    cron: textOrNull(row, 'cron'),
    everyMs: numberOrNull(row, 'every_ms'),
    zone: textOf(row, 'zone'),
    missed: textOf(row, 'missed'),
    graceMs: numberOf(row, 'grace_ms'),
    catchUpMost: numberOf(row, 'catch_up_most'),
    catchUpMs: numberOf(row, 'catch_up_ms'),
    revision: textOf(row, 'revision'),
    planned: booleanOf(row, 'planned'),
    nextMs: numberOf(row, 'next_us') / 1_000,
    nowMs: numberOf(row, 'now_us') / 1_000,
  }
}

// By schedule_next_idx, in its order: it reads no more rows than it returns and leaves out. The bounds are those of the table's
// constraint, so that a row that is there in spite of it fails nothing here.
const NEXT = statement(
  'schedules_next',
  `
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
)
SELECT s.name, s.queue, s.cron, s.every_ms::text AS every_ms, s.zone, s.missed, s.grace_ms::text AS grace_ms, s.catch_up_most,
       s.catch_up_ms::text AS catch_up_ms, s.revision::text AS revision, s.planned, ${microseconds('s.next_at')} AS next_us,
       ${microseconds('clock.now')} AS now_us
FROM clock CROSS JOIN LATERAL (
  SELECT s.* FROM sluice.schedule s
  WHERE s.paused_at IS NULL AND s.next_at >= '1970-01-01 00:00Z' AND s.next_at < '10000-01-01 00:00Z'
    AND pg_catalog.concat(s.name, ' ', s.revision) <> ALL ($2::text[])
  ORDER BY s.next_at LIMIT $1::integer
) s
ORDER BY s.next_at`,
)

const FIRE = statement(
  'schedule_fire',
  `
SELECT f.queue, f.id::text AS id, ${microseconds('f.occurrence')} AS occurrence_us
FROM sluice_private.schedule_fire(
  $1::text, $2::bigint, $3::text::timestamptz, $4::text[]::timestamptz[], $5::text::timestamptz, $6::bigint
) f`,
)

const PLAN = statement(
  'schedule_plan',
  'SELECT sluice_private.schedule_plan($1::text, $2::bigint, $3::text::timestamptz)',
)

const FAIL = statement('schedule_failed', 'SELECT sluice_private.schedule_failed($1::text, $2::bigint, $3::text)')
