import { booleanOf, type Execute, numberOf, statement, textOf } from '../statement.ts'

/** A segment that is to go, and how far that has come. */
export interface LeavingSegment {
  readonly stream: string
  readonly streamId: number
  readonly first: string
  /** The names of the stream's table and of the segment's. */
  readonly log: string
  readonly part: string
  readonly state: 'attached' | 'pending' | 'detached'
}

/** The segments that have been marked, the oldest of each stream first. */
export async function readLeaving(execute: Execute): Promise<readonly LeavingSegment[]> {
  return (await execute(LEAVING, [])).map((row) => ({
    stream: textOf(row, 'stream'),
    streamId: numberOf(row, 'stream_id'),
    first: textOf(row, 'first'),
    log: textOf(row, 'log'),
    part: textOf(row, 'part'),
    state: stateOf(textOf(row, 'state')),
  }))
}

/** Makes the session the only one that drops segments; false: another one does. */
export async function lockLeaving(execute: Execute): Promise<boolean> {
  await execute(LIMIT, [])
  const [row] = await execute(LOCK, [])
  return row !== undefined && booleanOf(row, 'locked')
}

/**
 * Takes a segment out of its stream. It waits for every transaction that has read the stream, and nothing waits for it.
 * Outside a transaction, by the owner of the tables. An interrupted one is finished.
 */
export async function detachSegment(execute: Execute, { log, part, state }: LeavingSegment): Promise<void> {
  const how = state === 'pending' ? 'FINALIZE' : 'CONCURRENTLY'
  await execute(statement(`detach_${part}`, `ALTER TABLE sluice.${log} DETACH PARTITION sluice.${part} ${how}`), [])
}

/**
 * Drops a segment; false: another session is at it. One that is still attached is detached first, which gives up after
 * 50 ms if somebody reads the stream.
 */
export async function dropSegment(execute: Execute, { streamId, first }: LeavingSegment): Promise<boolean> {
  const [row] = await execute(DROP, [streamId, first])
  return row !== undefined && booleanOf(row, 'dropped')
}

function stateOf(text: string): LeavingSegment['state'] {
  if (text === 'attached' || text === 'pending' || text === 'detached') return text
  throw new TypeError(`state: ${text}`)
}

const LEAVING = statement(
  'segments_leaving',
  `SELECT d.stream, d.stream_id, d.first::text AS first, d.log, d.part, d.state FROM sluice.segments_to_drop() d`,
)

// A batch that lasts for longer is waited for by the next pass. It may not have a lock_timeout: that counts for this
// wait too.
const LIMIT = statement(
  'segments_limit',
  `SELECT pg_catalog.set_config('statement_timeout', '30s', false), pg_catalog.set_config('lock_timeout', '0', false)`,
)

const LOCK = statement('segments_lock', 'SELECT pg_try_advisory_lock(746505, 0) AS locked')

// A session that has the lock already gets it once more.
const DROP = statement(
  'segment_drop',
  `
SELECT CASE WHEN pg_try_advisory_xact_lock(746505, 0) THEN sluice.drop_segment($1::integer, $2::bigint) IS NOT NULL
            ELSE false END AS dropped`,
)
