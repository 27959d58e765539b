import { requiringRows } from '../rows-missing.ts'
import { detailsJson, type FailureDetails } from '../settle/settle.ts'
import { type Execute, statement } from '../statement.ts'
import type { KnownGroup } from './known-group.ts'

/** An event that becomes a message of its group's queue. */
export interface QueuedEvent {
  readonly partition: number
  readonly position: number
  /** How many tries have failed. */
  readonly attempt: number
  /** Null: at once. */
  readonly dueUs: number | null
  readonly error: string | null
  readonly details?: FailureDetails | undefined
}

/** An event that is given up. */
export interface DeadEvent {
  readonly partition: number
  readonly position: number
  readonly attempt: number
  readonly reason: string
  readonly error: string | null
  readonly details?: FailureDetails | undefined
}

/** A partition's progress, from one position to a later one. */
export interface Moved {
  readonly partition: number
  readonly from: number
  readonly to: number
}

/**
 * Makes events messages of the group's queue, in the order of the list, which is that of their positions in each
 * partition. One with a key that is due later is closed for the later ones of its key: see sluice_private.queue_events.
 *
 * @throws SluiceError ROWS_MISSING
 */
export async function queueEvents(
  execute: Execute,
  { groupId }: KnownGroup,
  events: readonly QueuedEvent[],
): Promise<void> {
  const sent = execute(QUEUE_EVENTS, [
    groupId,
    events.map(({ partition }) => partition),
    events.map(({ position }) => position),
    events.map(({ attempt }) => attempt),
    events.map(({ dueUs }) => dueUs),
    events.map(({ error }) => error),
    events.map(detailsJson),
  ])
  await requiringRows(sent)
}

/** @throws SluiceError ROWS_MISSING */
export async function deadLetterEvents(
  execute: Execute,
  { groupId }: KnownGroup,
  events: readonly DeadEvent[],
): Promise<void> {
  const sent = execute(DEAD_LETTER_EVENTS, [
    groupId,
    events.map(({ partition }) => partition),
    events.map(({ position }) => position),
    events.map(({ attempt }) => attempt),
    events.map(({ reason }) => reason),
    events.map(({ error }) => error),
    events.map(detailsJson),
  ])
  await requiringRows(sent)
}

/**
 * Moves a group's progress. The rows before are looked up one by one in the primary key, and deleted by their ctids:
 * joined to the list, a table with stale statistics would be read as a whole.
 *
 * @throws SluiceError ROWS_MISSING if the rows were not as they were claimed
 */
export async function moveProgress(execute: Execute, { groupId }: KnownGroup, moved: readonly Moved[]): Promise<void> {
  const sent = execute(MOVE_PROGRESS, [
    groupId,
    moved.map(({ partition }) => partition),
    moved.map(({ from }) => from),
    moved.map(({ to }) => to),
  ])
  await requiringRows(sent)
}

/** A partition that waits for its next event, which has failed. */
export interface HeldPartition {
  readonly partition: number
  /** Its progress. */
  readonly position: number
  /** Null: it is not tried again by itself. */
  readonly untilUs: number | null
  readonly attempt: number
  readonly error: string | null
  readonly details?: FailureDetails | undefined
}

/**
 * Lets partitions wait, whose progress has been moved to where the failed event is next. Rows of the primary key, one version more of
 * each.
 *
 * @throws SluiceError ROWS_MISSING if the progress is not as given
 */
export async function holdPartitions(
  execute: Execute,
  { groupId }: KnownGroup,
  held: readonly HeldPartition[],
): Promise<void> {
  const sent = execute(HOLD_PARTITIONS, [
    groupId,
    held.map(({ partition }) => partition),
    held.map(({ position }) => position),
    held.map(({ untilUs }) => untilUs),
    held.map(({ attempt }) => attempt),
    held.map(({ error }) => error),
    held.map(detailsJson),
  ])
  await requiringRows(sent)
}

/**
 * Fails on the server unless all of the rows in $2 were taken: the COMMIT is in the same packet, so this process would find out
 * too late.
 */
const requireAll = (taken: string) => `
SELECT CASE WHEN t.taken < pg_catalog.cardinality($2::smallint[]) THEN sluice_private.require_kept(
  'group_progress', (SELECT g.stream || ':' || g.name FROM sluice.stream_group g WHERE g.id = $1::integer),
  pg_catalog.cardinality($2::smallint[])::bigint, t.taken
) END AS required
FROM (SELECT ${taken} AS taken) t`

const QUEUE_EVENTS = statement(
  'event_queue',
  'SELECT sluice_private.queue_events($1::integer, $2::smallint[], $3::bigint[], $4::integer[], $5::double precision[], $6::text[], $7::text[]::jsonb[])',
)

const DEAD_LETTER_EVENTS = statement(
  'event_dead_letter',
  'SELECT sluice_private.dead_letter_events($1::integer, $2::smallint[], $3::bigint[], $4::integer[], $5::text[], $6::text[], $7::text[]::jsonb[])',
)

const HOLD_PARTITIONS = statement(
  'event_hold',
  `
WITH held AS (
  UPDATE sluice.group_progress p
  SET held_until = coalesce(timestamptz 'epoch' + given.until_us * interval '1 microsecond', 'infinity'),
      attempt = given.attempt, last_error = coalesce(given.error, p.last_error),
      failures = sluice_private.add_failure(p.failures, given.attempt, given.error, given.details, clock_timestamp())
  FROM ROWS FROM (
    pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($4::double precision[]),
    pg_catalog.unnest($5::integer[]), pg_catalog.unnest($6::text[]), pg_catalog.unnest($7::text[]::jsonb[])
  ) AS given (partition, position, until_us, attempt, error, details)
  WHERE p.group_id = $1::integer AND p.partition = given.partition AND p.position = given.position
  RETURNING 1
)
${requireAll('(SELECT count(*) FROM held)')}`,
)

const MOVE_PROGRESS = statement(
  'event_progress',
  `
WITH gone AS (
  DELETE FROM sluice.group_progress p WHERE p.ctid = ANY (ARRAY(
    SELECT had.ctid
    FROM ROWS FROM (pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::bigint[])) AS given (partition, position)
    CROSS JOIN LATERAL (
      SELECT p.ctid FROM sluice.group_progress p
      WHERE p.group_id = $1::integer AND p.partition = given.partition AND p.position = given.position LIMIT 1
    ) had
  )) RETURNING 1
), come AS (
  INSERT INTO sluice.group_progress (group_id, partition, position)
  SELECT $1::integer, given.partition, given.position
  FROM ROWS FROM (pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($4::bigint[])) AS given (partition, position)
  RETURNING 1
)
${requireAll('least((SELECT count(*) FROM gone), (SELECT count(*) FROM come))')}`,
)
