import { type Execute, numberOrNull, statement, textOf } from '../statement.ts'

/** What there may be to read in a stream. */
export interface StreamHead {
  readonly stream: string
  /** The last position that was drawn. */
  readonly head: string
  /** In how many milliseconds a failed event is tried again for which a slot of a group waits; null: there is none. */
  readonly heldMs: number | null
}

/**
 * One page of the sequence of each stream and, in each group that stops, a descent of group_progress_pkey for each slot. Streams that
 * are gone are left out.
 */
export async function readHeads(execute: Execute, streams: readonly string[]): Promise<readonly StreamHead[]> {
  const rows = await execute(READ_HEADS, [streams])
  return rows.map((row) => ({
    stream: textOf(row, 'stream'),
    head: textOf(row, 'head'),
    heldMs: numberOrNull(row, 'held_ms'),
  }))
}

const READ_HEADS = statement(
  'stream_heads',
  `
SELECT s.stream, sluice.stream_head(s.positions)::text AS head, (
  SELECT pg_catalog.date_part('epoch', min(p.held_until) - clock_timestamp()) * 1000::double precision
  FROM sluice.stream_group g CROSS JOIN LATERAL generate_series(0, s.slots - 1) AS o (slot)
  CROSS JOIN LATERAL (
    SELECT p.held_until FROM sluice.group_progress p
    WHERE p.group_id = g.id AND p.slot = o.slot ORDER BY p.position DESC LIMIT 1
  ) p
  WHERE g.stream = s.stream AND g.on_failure = 'stop' AND isfinite(p.held_until)
) AS held_ms
FROM sluice.stream s WHERE s.stream = ANY ($1::text[])`,
)
