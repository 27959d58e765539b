import { candidateSlots, orderedClaim } from './candidate-slots.ts'
import { CLAIMED_COLUMNS, lockingClaim } from './claim.ts'
import { isDue } from './is-due.ts'
import { slotContext } from './slot-context.ts'

/**
 * Without slot IS NULL, which would let the planner take message_due_idx and sort the whole queue by id. A message that
 * somebody else has locked, such as a pipeline without `ordered`, comes back as a line without a message: to wait for
 * it would keep the connection for as long as a handler takes.
 */
export const CLAIM_WHOLE_QUEUE = lockingClaim(
  orderedClaim(
    'claim_whole_queue',
    '',
    '',
    `
  SELECT start.of_slot, m.*
  FROM ${candidateSlots(
    `
      SELECT m.id FROM sluice.message m
      WHERE m.queue = $1::text AND coalesce(m.slot, -1) = -1 AND m.id >= floor.id
      ORDER BY m.id LIMIT 1
    `,
    'r.slot IS NULL',
  )}
  CROSS JOIN LATERAL (
    SELECT ${slotContext('false')} AS of_slot
    FROM (
      SELECT FROM sluice.slot s
      WHERE s.queue = $1::text AND s.slot = candidate.slot AND candidate.first_live IS NOT NULL
        AND coalesce((s.held -> ''::text ->> 1)::bigint, 0) <= clock.now_us
      FOR NO KEY UPDATE OF s SKIP LOCKED
    ) locked
    OFFSET 0
  ) start
  CROSS JOIN LATERAL (
    SELECT m.id, m.ctid FROM sluice.message m
    WHERE m.queue = $1::text AND coalesce(m.slot, -1) = -1 AND m.id >= candidate.first_live AND ${isDue('m')}
    ORDER BY m.id
    LIMIT (SELECT $4::integer)
  ) next
  LEFT JOIN LATERAL (
    SELECT ${CLAIMED_COLUMNS}
    FROM sluice.message m
    WHERE m.queue = $1::text AND m.id = next.id AND m.ctid = next.ctid AND ${isDue('m')}
    FOR UPDATE OF m SKIP LOCKED
  ) m ON true`,
  ),
)
