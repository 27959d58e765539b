import { type Execute, numberOrNull, statement, textOf, textOrNull } from '../statement.ts'

/** What a poll finds of streams and their groups. */
export interface PolledStreams {
  /** Streams that are gone are left out. */
  readonly heads: readonly StreamHead[]
  /** Groups that are gone are left out. */
  readonly groups: readonly PolledGroup[]
}

/** What there may be to read in a stream. */
export interface StreamHead {
  readonly stream: string
  /** The last position that was drawn. */
  readonly head: string
}

/** What a group may read. */
export interface PolledGroup {
  /** Its queue. */
  readonly queue: string
  /** Of its row and its progress, a number: where it is another one, events may be available although none was appended. */
  readonly state: string
  /** In how many milliseconds an event is tried again for which its partition waits; null: there is none. */
  readonly heldMs: number | null
}

/**
 * One page of the sequence of each stream and, for those groups of theirs whose queues are given, a descent of
 * group_progress_pkey for each partition. Dead rows of a partition that has failed for long lie before the newest one,
 * and are not read.
 */
export async function readHeads(
  execute: Execute,
  streams: readonly string[],
  queues: readonly string[],
): Promise<PolledStreams> {
  const rows = await execute(READ_HEADS, [streams, queues])
  const heads: StreamHead[] = []
  const groups: PolledGroup[] = []
  for (const row of rows) {
    const [queue, state] = [textOrNull(row, 'queue'), textOf(row, 'state')]
    if (queue === null) heads.push({ stream: textOf(row, 'stream'), head: state })
    else groups.push({ queue, state, heldMs: numberOrNull(row, 'held_ms') })
  }
  return { heads, groups }
}

/**
 * A group's state has all that decides which events of the log it may read, but for the head, open appends and the locks of
 * members: its number, its options, what it has lost, and the newest progress of each partition.
 */
const READ_HEADS = statement(
  'stream_heads',
  `
SELECT s.stream, sluice_private.stream_head(s.positions)::text AS state, NULL AS queue, NULL AS held_ms
FROM sluice.stream s WHERE s.stream = ANY ($1::text[])
UNION ALL
SELECT NULL, hashtextextended(grp.settings || ' ' || grp.progress, 0::bigint)::text, grp.queue,
       pg_catalog.date_part('epoch', grp.until - clock_timestamp()) * 1000::double precision
FROM (
  SELECT g.stream || ':' || g.name AS queue, g::text AS settings, partitions.progress, partitions.until
  FROM sluice.stream s JOIN sluice.stream_group g ON g.stream = s.stream CROSS JOIN LATERAL (
    SELECT pg_catalog.string_agg(p.position::text || coalesce('>' || p.held_until::text, ''), ' ' ORDER BY o.partition) AS progress,
           min(p.held_until) FILTER (WHERE isfinite(p.held_until)) AS until
    FROM generate_series(0, s.partitions - 1) AS o (partition) CROSS JOIN LATERAL (
      SELECT p.position, p.held_until FROM sluice.group_progress p
      WHERE p.group_id = g.id AND p.partition = o.partition ORDER BY p.position DESC LIMIT 1
    ) p
  ) partitions
  WHERE s.stream = ANY ($1::text[]) AND g.stream || ':' || g.name = ANY ($2::text[]) OFFSET 0
) grp`,
)
