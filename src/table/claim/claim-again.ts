import { type Execute, statement } from '../statement.ts'
import { CLAIM_CONTEXT, CLAIMED_COLUMNS, type ClaimedRows, claimedUs, claimResult, toClaimedRows } from './claim.ts'

/** One message as it was claimed before. */
export interface ClaimedBefore {
  readonly queue: string
  readonly id: string
  /** How many tries had failed then. */
  readonly attempt: number
  /** When it was due, in microseconds since 1970. */
  readonly dueUs: number
  /** The slot of its ordering key, which a batch locks; null for a message without a key. */
  readonly slot: number | null
}

/**
 * Locks one message whose transaction was lost, and its slot, if the message is unchanged and no other session has locked
 * it. Otherwise the claim is empty. It uses the two primary keys. Run it in a READ COMMITTED transaction.
 *
 * A lease that it has got since locks nothing, and a snooze whose COMMIT took effect counts no attempt. Both show in its due
 * time.
 */
export async function claimAgain(
  execute: Execute,
  { queue, id, attempt, slot, dueUs }: ClaimedBefore,
): Promise<ClaimedRows> {
  return toClaimedRows(await execute(CLAIM_AGAIN, [queue, id, attempt, slot, dueUs]))
}

const CLAIM_AGAIN = statement(
  'claim_again',
  `
WITH clock AS MATERIALIZED (
  SELECT c.now, ${CLAIM_CONTEXT}
  FROM (SELECT clock_timestamp() AS now OFFSET 0) c
), slot AS MATERIALIZED (
  SELECT s.slot FROM sluice.slot s WHERE s.queue = $1::text AND s.slot = $4::smallint FOR NO KEY UPDATE OF s SKIP LOCKED
)${claimResult('c.attempt')}
FROM clock LEFT JOIN LATERAL (
  SELECT ${CLAIMED_COLUMNS}
  FROM sluice.message m
  WHERE m.queue = $1::text AND m.id = $2::bigint AND m.attempt = $3::integer AND ${claimedUs('m.due_at')} = $5::bigint
    AND ($4::smallint IS NULL OR EXISTS (SELECT FROM slot))
  FOR UPDATE OF m SKIP LOCKED
) c ON true`,
)
