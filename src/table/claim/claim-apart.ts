import { ofVersion } from '../rows-by-id.ts'
import type { Execute } from '../statement.ts'
import {
  CLAIM_CONTEXT,
  CLAIMED_COLUMNS,
  type ClaimedRows,
  leasingClaim,
  lockingClaim,
  type PriorityFloor,
  toClaimedRows,
} from './claim.ts'
import { type Lease, leaseParams } from './lease.ts'

/**
 * The same as `claim`, for a queue that many claim from at once. It begins `offset` messages above each floor, goes on
 * at the floor when it has reached the end, and does not try to lock rows that another transaction has.
 *
 * The server needs 1.5 µs to find out that a row is locked, because it looks into its lock table. With 64 batches of
 * 100 in flight, a claim from the head spent 10 ms on rows of others. So LockRows does not see rows that a running
 * transaction has locked or deleted (0.3 µs each): those of transactions in the snapshot's list, `running`, and those
 * of all younger ones, by `age`. Rows that a transaction has given back are taken at once. SKIP LOCKED skips rows that
 * are locked after the snapshot, and rows that are locked in a savepoint, whose number the list does not have. A list
 * of more than 200 would itself be slow, and is left empty.
 *
 * The scan to the place where the claim begins locks nothing and costs 0.1 µs per message. It goes by message_due_idx
 * in order, like everything here. If a priority has no more than `offset` messages, the claim begins at its floor. Each
 * priority is two stretches, [start, end) and then [floor, start), so a lower priority is read only if nothing of a
 * higher one is free. The rest, and why it can lock no more than `limit`, is as in `claim`.
 */
export async function claimApart(
  execute: Execute,
  queue: string,
  floors: readonly PriorityFloor[],
  limit: number,
  offset: number,
  lease?: Lease,
): Promise<ClaimedRows> {
  const rows = await execute(lease === undefined ? CLAIM_APART : ofVersion(CLAIM_APART_LEASED, lease.serverVersion), [
    queue,
    floors.map((floor) => floor.priority),
    floors.map((floor) => floor.dueUs),
    floors.map((floor) => floor.id),
    limit,
    offset,
    ...leaseParams(lease),
  ])
  return toClaimedRows(rows)
}

const TEXT = {
  name: 'claim_apart',
  ctes: `
WITH clock AS MATERIALIZED (
  SELECT c.now, ${CLAIM_CONTEXT},
         ARRAY(SELECT x.xid::xid FROM pg_snapshot_xip(pg_current_snapshot()) AS x (xid)
               WHERE (SELECT count(*) FROM pg_snapshot_xip(pg_current_snapshot())) <= 200) AS running,
         age(pg_snapshot_xmax(pg_current_snapshot())::xid) AS age
  FROM (SELECT clock_timestamp() AS now OFFSET 0) c
)`,
  rows: `
  SELECT m.*
  FROM (
    SELECT f.priority, timestamptz 'epoch' + f.due_us::double precision * interval '1 microsecond' AS due_at, f.id
    FROM unnest($2::smallint[], $3::bigint[], $4::bigint[]) AS f (priority, due_us, id)
    OFFSET 0
  ) floor
  LEFT JOIN LATERAL (
    SELECT m.due_at, m.id
    FROM sluice.message m
    WHERE m.queue = $1::text AND m.slot IS NULL AND m.priority = floor.priority
      AND (m.due_at, m.id) > (floor.due_at, floor.id) AND m.due_at <= clock.now
    ORDER BY m.due_at, m.id
    LIMIT 1 OFFSET $6::integer
  ) start ON $6::integer > 0
  CROSS JOIN LATERAL (
    SELECT start.due_at, start.id, timestamptz 'infinity' AS end_at, 0::bigint AS end_id WHERE start.id IS NOT NULL
    UNION ALL
    SELECT floor.due_at, floor.id, coalesce(start.due_at, timestamptz 'infinity'), coalesce(start.id, 0)
  ) stretch
  CROSS JOIN LATERAL (
    SELECT ${CLAIMED_COLUMNS}
    FROM sluice.message m
    WHERE m.queue = $1::text AND m.slot IS NULL AND m.priority = floor.priority
      AND (m.due_at, m.id) > (stretch.due_at, stretch.id) AND (m.due_at, m.id) <= (stretch.end_at, stretch.end_id)
      AND m.due_at <= clock.now
      AND (m.xmax = '0'::xid OR age(m.xmax) > clock.age AND m.xmax <> ALL (clock.running))
    ORDER BY m.due_at, m.id
    LIMIT (SELECT $5::integer)
    FOR UPDATE OF m SKIP LOCKED
  ) m
  LIMIT $5::integer`,
}
const CLAIM_APART = lockingClaim(TEXT)
const CLAIM_APART_LEASED = leasingClaim(TEXT, 7)
