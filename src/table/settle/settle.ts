import { inOrder } from '../in-order.ts'
import type { Execute } from '../statement.ts'
import { type Fence, type FencedText, fenced, leasedRowsInOrder, sendFenced } from './fence.ts'
import { type Kept, keeping, keptParams } from './keep.ts'

// The statements that write what became of messages, each for both fences. They find rows by the primary key
// (queue, id), and leave one dead row for each. All of a batch's leave in one packet with its COMMIT.

/** A message that is due again, in its own row: same id, same place in its order. */
export interface LaterRow {
  readonly id: string
  /** When it is due, in microseconds since 1970 by the database's clock. */
  readonly dueUs: number
  /** How many tries have failed by now. */
  readonly attempt: number
  /** Null for a snooze, where nothing failed. */
  readonly error: string | null
  /** What else is known of the failure. */
  readonly details?: FailureDetails | undefined
}

export interface DeadRow {
  readonly id: string
  readonly attempt: number
  readonly reason: string
  readonly error: string | null
  /** What else is known of the failure. */
  readonly details?: FailureDetails | undefined
}

/** Where a message failed: stored beside the error, for those who look for the cause. */
export interface FailureDetails {
  readonly worker: string
  readonly stack?: string | undefined
}

/** As the element of a parameter: JSON. */
export function detailsJson({ details }: { readonly details?: FailureDetails | undefined }): string | null {
  return details === undefined ? null : JSON.stringify(details)
}

/** Where a statement runs, and whose rows it writes. */
export interface SettleIn {
  readonly queue: string
  readonly fence: Fence
  readonly serverVersion: number
}

/** Removes messages that have succeeded. Nothing else was ever written for one that succeeded at once. */
export function ackRows(execute: Execute, { queue, fence, serverVersion }: SettleIn, ids: readonly string[]) {
  const given = fence.kind === 'leased' ? inOrder(ids) : ids
  return sendFenced(execute, ACK, fence, serverVersion, [queue, given])
}

/** The same in a queue that keeps its history: each row is moved there. */
export function moveToHistory(
  execute: Execute,
  { queue, fence, serverVersion }: SettleIn,
  ids: readonly string[],
  kept: Kept,
) {
  return sendFenced(execute, MOVE_TO_HISTORY, fence, serverVersion, [queue, ids, ...keptParams(kept)])
}

/** Gives messages a later due time, in place. The instants are parameters, so the UPDATE reads no clock. */
export function postponeRows(
  execute: Execute,
  { queue, fence, serverVersion }: SettleIn,
  rows: readonly LaterRow[],
  nowUs: number,
) {
  return sendFenced(execute, POSTPONE, fence, serverVersion, [
    queue,
    rows.map(({ id }) => id),
    rows.map(({ dueUs }) => dueUs),
    rows.map(({ attempt }) => attempt),
    rows.map(({ error }) => error),
    nowUs,
    rows.map(detailsJson),
  ])
}

/** Moves messages to the dead letters. */
export function deadLetterRows(execute: Execute, { queue, fence, serverVersion }: SettleIn, rows: readonly DeadRow[]) {
  return sendFenced(execute, DEAD_LETTER, fence, serverVersion, [
    queue,
    rows.map(({ id }) => id),
    rows.map(({ attempt }) => attempt),
    rows.map(({ reason }) => reason),
    rows.map(({ error }) => error),
    rows.map(detailsJson),
  ])
}

/**
 * The end of a statement that has touched rows of sluice.message, named `touched`. Of locked rows it must have touched all
 * of $2: the function raises an error, and is called only if the counts differ. Counting takes RETURNING, which fetches
 * each row once more: 12 µs of the server's time for one row, 38 µs for a hundred, which is 3 per cent of a drain at most.
 */
const answer = ({ either }: FencedText) =>
  either({
    locked: `
SELECT sluice_private.require_settled('message', $1::text, $2::bigint[], ARRAY(SELECT t.id FROM touched t))
FROM (SELECT count(*) AS n FROM touched) t
WHERE t.n OPERATOR(pg_catalog.<) pg_catalog.cardinality($2::bigint[])`,
    leased: `
SELECT t.id::text AS id FROM touched t`,
  })

const ACK = fenced(
  'ack',
  '$3',
  (fence) => `
WITH touched AS (
  DELETE FROM sluice.message m WHERE ${fence.rows} RETURNING m.id
)${answer(fence)}`,
  leasedRowsInOrder,
)

const MOVE_TO_HISTORY = fenced(
  'ack_and_keep',
  '$6',
  ({ rows, either }) => `
WITH touched AS (
  DELETE FROM sluice.message m WHERE ${rows} RETURNING m.*
), kept AS (${keeping('touched')}
)${either({
    locked: `
SELECT sluice_private.require_settled('message', $1::text, $2::bigint[], ARRAY(SELECT t.id FROM touched t)),
       sluice_private.require_kept('completed_message', $1::text, t.n, k.n)
FROM (SELECT count(*) AS n FROM touched) t CROSS JOIN (SELECT count(*) AS n FROM kept) k
WHERE t.n OPERATOR(pg_catalog.<) pg_catalog.cardinality($2::bigint[]) OR k.n OPERATOR(pg_catalog.<) t.n`,
    leased: `
SELECT t.id::text AS id, r.required
FROM touched t CROSS JOIN (
  SELECT sluice_private.require_kept(
    'completed_message', $1::text, (SELECT count(*) FROM touched), (SELECT count(*) FROM kept)
  ) AS required
  OFFSET 0 -- a fence: called once
) r`,
  })}`,
)

const FAILED_AT = `timestamptz 'epoch' + $6::bigint::double precision * interval '1 microsecond'`

const POSTPONE = fenced(
  'postpone',
  '$8',
  (fence) => `
WITH touched AS (
  UPDATE sluice.message m
  SET due_at = timestamptz 'epoch' + p.due_us::double precision * interval '1 microsecond',
      attempt = p.attempt,
      last_error = coalesce(p.error, m.last_error),
      failures = CASE WHEN p.error IS NULL THEN m.failures ELSE sluice_private.add_failure(
        m.failures, p.attempt, p.error, p.details::jsonb, ${FAILED_AT}
      ) END,
      failed_at = CASE WHEN p.error IS NULL THEN m.failed_at ELSE ${FAILED_AT} END,
      lease = sluice_private.idle_lease(m.slot, m.lease, m.dedupe_key, m.expires_at)
  FROM unnest($2::bigint[], $3::bigint[], $4::integer[], $5::text[], $7::text[]) AS p (id, due_us, attempt, error, details)
  WHERE ${fence.rows} AND m.id = p.id
  RETURNING m.id
)${answer(fence)}`,
)

const BURIED = `sluice_private.require_settled(
    'dead_letter', $1::text, ARRAY(SELECT t.id FROM touched t), ARRAY(SELECT b.id FROM buried b)
  )`

const DEAD_LETTER = fenced(
  'dead_letter',
  '$7',
  ({ rows, either }) => `
WITH touched AS (
  DELETE FROM sluice.message m WHERE ${rows} RETURNING m.id, m AS gone
), buried AS (
  SELECT sluice_private.bury_row(t.gone, d.attempt, d.reason, d.error, d.details::jsonb) AS id
  FROM touched t
  JOIN unnest($2::bigint[], $3::integer[], $4::text[], $5::text[], $6::text[]) AS d (id, attempt, reason, error, details)
    ON d.id = t.id
)${either({
    locked: `
SELECT sluice_private.require_settled('message', $1::text, $2::bigint[], ARRAY(SELECT t.id FROM touched t)),
       ${BURIED}
FROM (SELECT count(*) AS n FROM buried) b
WHERE b.n OPERATOR(pg_catalog.<) pg_catalog.cardinality($2::bigint[])`,
    leased: `
SELECT t.id::text AS id, r.required
FROM touched t CROSS JOIN (
  SELECT ${BURIED} AS required
  OFFSET 0 -- a fence: called once, and also if nothing was buried
) r`,
  })}`,
)
