import { type Statement, statement } from '../statement.ts'
import { MAY_BE_QUEUED } from './known-group.ts'

export const LOOK_AT_STABLE_ENDS = statement(
  'event_stable_ends',
  `
SELECT pg_catalog.set_config('sluice.stable_ends', pg_catalog.array_to_string(look.stable_ends, ' '), true) AS stable_ends
FROM (
  SELECT sluice_private.stable_ends(s.id, s.positions) AS stable_ends FROM sluice.stream s WHERE s.id = $1::integer OFFSET 0
) look`,
)

interface EventStatements {
  readonly lock: Statement
  readonly read: Statement
  readonly rest: Statement
  readonly windows: Statement
}

const made = new Map<string, EventStatements>()

/**
 * Each stream has a table, so its statements have a plan of their own, which looks at no other stream's segments; and
 * each window of it, so that the planner leaves out the other segments. A plan that left them out when it runs would
 * lock them all: 721 segments and their indexes took 4,300 locks for each batch, and eleven times as long.
 */
export function statementsOf(streamId: number, window: number): EventStatements {
  const name = `${streamId}_${window}`
  const known = made.get(name)
  if (known !== undefined) return known
  const log = logOf(streamId, window)
  const statements = {
    lock: statement(`event_lock_${name}`, lockText(log)),
    read: statement(`event_read_${name}`, readText(log)),
    rest: statement(`event_rest_${name}`, restText(log)),
    windows: statement(`event_windows_${streamId}`, windowsText(streamId)),
  }
  made.set(name, statements)
  return statements
}

/** What is read of a stream: a window of its positions, in SQL. */
interface Log {
  readonly streamId: number
  readonly table: string
  /** Event `e` is in the window. */
  readonly within: string
  /** All events of partition `s` behind `progress` are in the window or after it. */
  readonly begins: string
}

/**
 * A window has eight segments, and the first one of the next window: what a partition has in a segment is not known until
 * some time after the next one has been opened. Whether a partition has events before the window, behind its progress, is in
 * one row of the segment before it. That row is gone if the segment is, and with it what the group had not read, of
 * which it is told.
 */
function logOf(streamId: number, window: number): Log {
  const first = window * WINDOW
  const before = first - SEGMENT
  return {
    streamId,
    table: `sluice.event_${streamId}`,
    within: `e.position >= ${first}::bigint AND e.position < ${first + WINDOW + SEGMENT}::bigint`,
    begins:
      window === 0
        ? 'true'
        : `(progress.position >= ${first - 1}::bigint OR NOT EXISTS (
      SELECT FROM sluice.segment g WHERE g.stream_id = ${streamId} AND g.first = ${before}::bigint AND (g.lasts[s.partition + 1] <= progress.position) IS NOT TRUE
    ))`,
  }
}

/** The window of a position. */
export function windowAt(position: number): number {
  return Math.floor(position / WINDOW)
}

const SEGMENT = 1_000_000_000
const WINDOW = 8 * SEGMENT

const stableEndsOf = (parameter: string) =>
  `pg_catalog.string_to_array(coalesce(${parameter}::text, pg_catalog.current_setting('sluice.stable_ends')), ' ')::bigint[]`

/**
 * How far group $1 has got in partition `s`: one descent of group_progress_pkey from its end, where the newest row is.
 * Dead rows lie before it, so an old snapshot does not make it slower.
 */
const progressOf = (group: string) => `
  SELECT p.position, p.held_until, p.attempt FROM sluice.group_progress p
  WHERE p.group_id = ${group}::integer AND p.partition = s.partition ORDER BY p.position DESC LIMIT 1`

/**
 * The partition does not wait for an event that has failed. A claim asks again behind the lock: that may have been the last
 * holder's.
 */
const notHeld = (now: string) => `(progress.held_until IS NULL OR progress.held_until <= ${now})`

/**
 * Locks partitions with unread events, in the order of $2, until there are $3 events in them: a batch, or 1, for what the
 * first partition has. With a backlog that is one partition, and the others are left to other members; near the head it
 * is many. Each step of the recursion is one partition: how many events it has, counted up to what $3 lacks, and its
 * lock, which CASE tries only if it has any. A partition costs a descent of group_progress_pkey, and a scan of the
 * primary key of the stream's table (partition, position) over rows that the second statement reads anyway; it counts
 * them in order, because otherwise the planner, with statistics of a small table, would collect all unread events of
 * the partition in a bitmap. What the count says may be outdated by the time the lock is there: then the batch is smaller.
 */
const lockText = ({ table, within, begins }: Log) => `
WITH RECURSIVE stable_ends AS MATERIALIZED (
  SELECT ${stableEndsOf('$4')} AS at, clock_timestamp() AS now
), step (n, partition, events, elsewhere) AS (
  SELECT 0, NULL::smallint, 0::bigint, false
  UNION ALL
  SELECT step.n + 1, CASE WHEN tried.locked THEN s.partition END, step.events + CASE WHEN tried.locked THEN tried.events ELSE 0 END,
         step.elsewhere OR (step.n = 0 AND NOT here.begins)
  FROM step CROSS JOIN stable_ends
  CROSS JOIN LATERAL (SELECT ($2::smallint[])[step.n + 1] AS partition OFFSET 0) s
  CROSS JOIN LATERAL (${progressOf('$1')}
  ) progress
  CROSS JOIN LATERAL (SELECT ${begins} AS begins OFFSET 0) here
  CROSS JOIN LATERAL (
    SELECT found.events,
           CASE WHEN found.events > 0 THEN pg_try_advisory_xact_lock(746503, ($1::integer << 6) | s.partition::integer) ELSE false END AS locked
    FROM (
      SELECT count(*) AS events FROM (
        SELECT FROM ${table} e
        WHERE here.begins AND ${notHeld('stable_ends.now')} AND ${within}
          AND e.partition = s.partition AND e.position > progress.position AND e.position <= stable_ends.at[s.partition + 2]
        ORDER BY e.position LIMIT $3::integer - step.events
      ) e
    ) found OFFSET 0
  ) tried
  WHERE step.n < pg_catalog.cardinality($2::smallint[]) AND step.events < $3::integer
)
SELECT pg_catalog.set_config('sluice.partitions', coalesce(pg_catalog.string_agg(step.partition::text, ' '), ''), true) AS partitions,
       pg_catalog.bool_or(step.elsewhere) AS elsewhere
FROM step`

/**
 * Reads the events behind the progress of the partitions that have just been locked, partition by partition, up to $3
 * in all. A partition's events come in the order of its primary key (partition, position); segments below the progress
 * are pruned at run time. Whether a key is deferred is asked only if the group's queue has keyed messages at all: one
 * descent of group_queued_idx, and only where that has a row one of message_slot_idx, which walks what has left the
 * queue since an old snapshot. That look must be in this statement, behind the lock: in the snapshot of the lock the
 * last holder's deferred keys are not there yet. All looks at the queue ask in the order of message_slot_idx, and for
 * the slot of a key as a range: the planner would otherwise read the whole queue by its primary key. What most events
 * say alike is NULL: a value takes 0.1 us of Node, and a NULL none.
 */
const readText = ({ table, within, begins }: Log) => `
SELECT e.position, s.partition, e.ordering_key, e.type, nullif(e.schema_version, 1) AS schema_version, e.payload::text AS payload,
       nullif(e.headers::text, '{}') AS headers, (date_part('epoch', e.appended_at) * 1000000::double precision)::bigint AS appended_us,
       progress.position AS from_position, nullif(progress.attempt, 0) AS attempt,
       nullif(CASE WHEN locked.keyed AND e.ordering_key IS NOT NULL THEN (
         SELECT true FROM (SELECT (hashtextextended(e.ordering_key COLLATE "C", 0) & 255)::smallint AS slot OFFSET 0) k
         CROSS JOIN LATERAL (
           SELECT m.slot FROM sluice.message m
           WHERE m.queue = $1::text AND m.slot >= k.slot AND m.slot <= k.slot AND m.ordering_key = e.ordering_key
           ORDER BY m.slot, m.id LIMIT 1
         ) m
       ) IS NOT NULL ELSE false END, false) AS deferred
FROM (
  SELECT pg_catalog.string_to_array(pg_catalog.current_setting('sluice.partitions'), ' ')::smallint[] AS partitions, ${stableEndsOf('$4')} AS at,
         clock_timestamp() AS now,
         CASE WHEN ${MAY_BE_QUEUED('$2')} THEN (
           SELECT m.slot FROM sluice.message m WHERE m.queue = $1::text AND m.slot IS NOT NULL ORDER BY m.slot, m.id LIMIT 1
         ) IS NOT NULL ELSE false END AS keyed
  OFFSET 0
) locked
CROSS JOIN LATERAL pg_catalog.unnest(locked.partitions) AS s (partition)
CROSS JOIN LATERAL (${progressOf('$2')}
) progress
CROSS JOIN LATERAL (SELECT ${begins} AS begins OFFSET 0) here
CROSS JOIN LATERAL (
  SELECT e.* FROM ${table} e
  WHERE here.begins AND ${notHeld('locked.now')} AND ${within}
    AND e.partition = s.partition AND e.position > progress.position AND e.position <= locked.at[s.partition + 2]
  ORDER BY e.position LIMIT (SELECT $3::integer)
) e
LIMIT $3::integer`

/** Partition by partition, until one has an event: EXISTS would become a join, which reads all events of a partition. */
const restText = ({ streamId, table, within, begins }: Log) => `
SELECT EXISTS (
  SELECT FROM (SELECT ${stableEndsOf('$3')} AS at OFFSET 0) stable_ends
  CROSS JOIN LATERAL generate_series(0, $2::integer - 1) AS s (partition)
  CROSS JOIN LATERAL (${progressOf('$1')}
  ) progress
  WHERE ${notHeld('clock.now')} AND ${begins} AND (
    SELECT e.position FROM ${table} e
    WHERE ${within} AND e.partition = s.partition AND e.position > progress.position AND e.position <= stable_ends.at[s.partition + 2]
    ORDER BY e.position LIMIT 1
  ) IS NOT NULL
  LIMIT 1
) AS unread, (
  SELECT pg_catalog.date_part('epoch', min(progress.held_until) - clock.now) * 1000::double precision
  FROM generate_series(0, $2::integer - 1) AS s (partition) CROSS JOIN LATERAL (${progressOf('$1')}
  ) progress
  WHERE progress.held_until > clock.now AND isfinite(progress.held_until)
) AS held_ms, ${windowsOfPartitions(streamId, '$2')} AS windows
FROM (SELECT clock_timestamp() AS now OFFSET 0) clock`

const windowsText = (streamId: number) => `SELECT ${windowsOfPartitions(streamId, '$2')} AS windows`

/**
 * By partition: the first segment that may have an event behind its progress, which is one row of segment_pkey for each
 * segment on the way to it. One that is attached ahead has none yet.
 */
const windowsOfPartitions = (streamId: number, partitions: string) => `ARRAY(
  SELECT coalesce((
    SELECT g.first / ${WINDOW}::bigint FROM sluice.segment g
    WHERE g.stream_id = ${streamId} AND g.first > progress.position - ${SEGMENT}::bigint AND g.opened_at IS NOT NULL
      AND (g.lasts[s.partition + 1] <= progress.position) IS NOT TRUE
    ORDER BY g.stream_id, g.first LIMIT 1
  ), progress.position / ${WINDOW}::bigint)::text
  FROM generate_series(0, ${partitions}::integer - 1) AS s (partition) CROSS JOIN LATERAL (${progressOf('$1')}
  ) progress
  ORDER BY s.partition
)`
