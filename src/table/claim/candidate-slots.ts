import { CLAIM_CONTEXT } from './claim.ts'

/**
 * The slots to claim from, each with its first live row, if it has one. A redriven message may be below the floor, and the
 * later ones of its key wait for it: message_redriven_idx, nearly always empty, gives the first of a slot. Whether the queue has
 * any is asked once for the claim.
 *
 * @param firstLive the first row from the floor on
 * @param all which rows `r` all these slots have
 * @param ofSlot which of them are in a slot
 */
export function candidateSlots(firstLive: string, all: string, ofSlot = 'true'): string {
  return `(
    SELECT start.*, floor.slot, floor.id AS floor_id,
           least((${firstLive}), CASE WHEN start.any_redriven THEN (${firstRedriven(`${all} AND ${ofSlot}`)}) END) AS first_live
    FROM (
      SELECT pg_current_xact_id_if_assigned() IS NULL AS fresh, pg_current_snapshot()::text AS snapshot,
             pg_snapshot_xmin(pg_current_snapshot())::text AS oldest,
             (${firstRedriven(all)}) IS NOT NULL AS any_redriven
      OFFSET 0
    ) start
    CROSS JOIN unnest($2::smallint[], $3::bigint[]) AS floor (slot, id)
    OFFSET 0 -- a fence: pulled up, the subselect would run again for every message
  ) candidate`
}

function firstRedriven(which: string): string {
  return `SELECT r.id FROM sluice.message r
             WHERE r.queue = $1::text AND r.redriven IS NOT NULL AND ${which}
             ORDER BY r.slot, r.id, r.redriven LIMIT 1`
}

/** A claim by slots, which says when it looked and what it has found in each. */
export function orderedClaim(name: string, ctes: string, columns: string, slots: string) {
  return {
    name,
    ctes: `
WITH clock AS MATERIALIZED (
  SELECT c.now, (extract(epoch FROM c.now) * 1000000.0)::bigint AS now_us, ${CLAIM_CONTEXT}
  FROM (SELECT clock_timestamp() AS now OFFSET 0) c
)${ctes}`,
    context: 'coalesce(c.of_slot, clock.context)',
    columns,
    rows: `${slots}
  LIMIT $4::integer`,
  }
}
