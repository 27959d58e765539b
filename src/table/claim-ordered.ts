import { CLAIM_RESULT, CLAIMED_COLUMNS, type Claim, LOOK, toClaim } from './claim.ts'
import { type Execute, numberOf, type Statement, statement, textOf } from './statement.ts'

/** The slot that stands for all messages without a key, in a pipeline that orders the whole queue. */
export const WHOLE_QUEUE_SLOT = 256

/** A slot of a queue, and the id below which it holds no live row. */
export interface SlotPosition {
  readonly slot: number
  readonly id: string
}

/** What an ordered claim took, where the live rows of the slots that it locked begin, and as of which snapshot. */
export interface OrderedClaim extends Claim {
  readonly firstLive: ReadonlyMap<number, string>
  /**
   * The oldest transaction id still running then, and the claim's own, which is higher than any given out before. (Not
   * the snapshot's xmax: that is only one more than the last to end, and a running transaction can be above it.)
   * Undefined if the transaction had its id already: then that says nothing of what ran when the claim looked.
   */
  readonly snapshot: { readonly xmin: bigint; readonly xid: bigint } | undefined
}

/**
 * Locks slots, and in them up to `limit` due messages in order of id, leaving out the keys that are held.
 *
 * The slot's row lock is what keeps a key to one batch at a time, across processes, released with the batch however
 * it ends; asking "is there an earlier message with this key" instead would cost time in proportion to the key's
 * backlog. message_slot_idx (queue, slot, id) gives the messages in order. `held` comes from the locked slot row,
 * which is read in its newest version, so a hold that another batch committed a moment ago counts, although the rest
 * of the statement sees an older snapshot. The message rows are locked without SKIP LOCKED: to slide past a locked
 * message would break the order, and with the slot locked only an operator can hold one.
 * The inner LIMIT is for the planner, as in `claim`.
 * Slots are locked one at a time as the limit needs them, and only if they hold a row at all.
 */
export async function claimSlots(
  execute: Execute,
  queue: string,
  floors: readonly SlotPosition[],
  limit: number,
): Promise<OrderedClaim> {
  return claimBy(CLAIM_SLOTS, execute, queue, floors, limit)
}

/**
 * The same for all messages without a key, as one sequence in order of id: {@link WHOLE_QUEUE_SLOT} is the lock, and
 * the primary key (queue, id) gives the order.
 */
export async function claimWholeQueue(
  execute: Execute,
  queue: string,
  floor: SlotPosition,
  limit: number,
): Promise<OrderedClaim> {
  return claimBy(CLAIM_WHOLE_QUEUE, execute, queue, [floor], limit)
}

async function claimBy(
  claimStatement: Statement,
  execute: Execute,
  queue: string,
  floors: readonly SlotPosition[],
  limit: number,
): Promise<OrderedClaim> {
  const rows = await execute(claimStatement, [
    queue,
    floors.map((floor) => floor.slot),
    floors.map((floor) => floor.id),
    limit,
  ])
  const firstLive = new Map<number, string>()
  for (const row of rows) {
    if (row.id !== null) firstLive.set(numberOf(row, 'locked_slot'), String(row.first_live))
  }
  const fresh = rows.find((row) => row.xid !== null)
  const snapshot = fresh && { xmin: BigInt(textOf(fresh, 'xmin')), xid: BigInt(textOf(fresh, 'xid')) }
  return { ...toClaim(rows), firstLive, snapshot }
}

/**
 * In an order, a message without a delay is due from the start: if the clock is set back, or a standby takes over whose
 * clock is behind, it would otherwise look like one with a delay, and those after it would go first. What waits for its
 * retry is due after its enqueue, and so is what was redriven.
 */
export function isDue(message: string): string {
  return `(${message}.due_at <= clock.now OR ${message}.due_at <= ${message}.enqueued_at)`
}

function orderedClaim(name: string, inSlot: (slot: string, id: string) => string, order: string): Statement {
  return statement(
    name,
    `
WITH clock AS MATERIALIZED (
  SELECT c.now, (extract(epoch FROM c.now) * 1000000.0)::bigint AS now_us, ${LOOK}
  FROM (SELECT clock_timestamp() AS now OFFSET 0) c
)${CLAIM_RESULT}, c.locked_slot, c.first_live::text AS first_live,
       pg_snapshot_xmin(pg_current_snapshot())::text AS xmin,
       CASE WHEN c.fresh THEN pg_current_xact_id()::text END AS xid
FROM clock LEFT JOIN LATERAL (
  SELECT lane.slot AS locked_slot, lane.first_live, lane.fresh, m.*
  FROM (
    SELECT start.fresh, floor.slot, (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = $1::text AND ${inSlot('floor.slot', 'floor.id')}
      ORDER BY ${order} LIMIT 1
    ) AS first_live
    FROM (SELECT pg_current_xact_id_if_assigned() IS NULL AS fresh OFFSET 0) start
    CROSS JOIN unnest($2::smallint[], $3::bigint[]) AS floor (slot, id)
    OFFSET 0 -- a fence: pulled up, the subselect would run again for every message
  ) lane
  CROSS JOIN LATERAL (
    SELECT s.held FROM sluice.slot s
    WHERE s.queue = $1::text AND s.slot = lane.slot AND lane.first_live IS NOT NULL
    FOR NO KEY UPDATE OF s SKIP LOCKED
  ) locked
  CROSS JOIN LATERAL (
    SELECT ${CLAIMED_COLUMNS}
    FROM sluice.message m
    WHERE m.queue = $1::text AND ${inSlot('lane.slot', 'lane.first_live')}
      AND ${isDue('m')}
      AND coalesce((locked.held -> coalesce(m.ordering_key, '') ->> 1)::bigint, 0) <= clock.now_us
    ORDER BY ${order}
    LIMIT (SELECT $4::integer)
    FOR UPDATE OF m
  ) m
  LIMIT $4::integer
) c ON true`,
  )
}

// Not slot = …: the order would then be by id alone, which the primary key has too, and with stale statistics the
// planner would read the queue from its beginning.
const CLAIM_SLOTS = orderedClaim(
  'claim_slots',
  (slot, id) => `m.slot IS NOT NULL AND (m.slot, m.id) >= (${slot}, ${id}) AND m.slot <= ${slot}`,
  'm.slot, m.id',
)

// Not slot IS NULL: that would let the planner take message_due_idx, and sort the whole queue by id.
const CLAIM_WHOLE_QUEUE = orderedClaim(
  'claim_whole_queue',
  (_, id) => `coalesce(m.slot, -1) = -1 AND m.id >= ${id}`,
  'm.id',
)
