import { type Execute, numberOf, statement, textOf, textOrNull } from '../statement.ts'
import type { PolledQueue } from '../worker/wait.ts'

/** What a poll finds of streams and their groups. */
export interface PolledStreams {
  /** Streams that are gone are left out. */
  readonly heads: readonly StreamHead[]
  /** The queues of groups in which a slot waits for a failed event, and when the first such event is tried again. */
  readonly held: readonly PolledQueue[]
}

/** What there may be to read in a stream. */
export interface StreamHead {
  readonly stream: string
  /** The last position that was drawn. */
  readonly head: string
}

/**
 * One page of the sequence of each stream and, for those groups of theirs whose queues are given, a descent of
 * group_progress_pkey for each slot. Dead rows of a slot that has failed for long lie before the newest one, and are not read.
 */
export async function readHeads(
  execute: Execute,
  streams: readonly string[],
  queues: readonly string[],
): Promise<PolledStreams> {
  const rows = await execute(READ_HEADS, [streams, queues])
  const heads: StreamHead[] = []
  const held: PolledQueue[] = []
  for (const row of rows) {
    const queue = textOrNull(row, 'queue')
    if (queue === null) heads.push({ stream: textOf(row, 'stream'), head: textOf(row, 'head') })
    else held.push({ queue, nextDueMs: numberOf(row, 'held_ms'), keyed: false })
  }
  return { heads, held }
}

const READ_HEADS = statement(
  'stream_heads',
  `
SELECT s.stream, sluice.stream_head(s.positions)::text AS head, NULL AS queue, NULL AS held_ms
FROM sluice.stream s WHERE s.stream = ANY ($1::text[])
UNION ALL
SELECT NULL, NULL, held.queue, pg_catalog.date_part('epoch', held.until - clock_timestamp()) * 1000::double precision
FROM (
  SELECT g.stream || ':' || g.name AS queue, (
    SELECT min(p.held_until) FROM generate_series(0, s.slots - 1) AS o (slot) CROSS JOIN LATERAL (
      SELECT p.held_until FROM sluice.group_progress p
      WHERE p.group_id = g.id AND p.slot = o.slot ORDER BY p.position DESC LIMIT 1
    ) p
    WHERE isfinite(p.held_until)
  ) AS until
  FROM sluice.stream s JOIN sluice.stream_group g ON g.stream = s.stream
  WHERE s.stream = ANY ($1::text[]) AND g.stream || ':' || g.name = ANY ($2::text[]) OFFSET 0
) held
WHERE held.until IS NOT NULL`,
)
