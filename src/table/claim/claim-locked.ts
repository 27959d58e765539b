import { ofVersion } from '../rows-by-id.ts'
import type { Execute } from '../statement.ts'
import { CLAIM_CLOCK, CLAIMED_COLUMNS, type ClaimedRows, leasingClaim, lockingClaim, toClaimedRows } from './claim.ts'
import { type Lease, leaseParams } from './lease.ts'

/**
 * The messages that a function has locked earlier in the transaction, one by one by the primary key. This statement's
 * snapshot is newer than the locks, so it sees what they have locked.
 */
export async function claimLocked(
  execute: Execute,
  queue: string,
  ids: readonly string[],
  lease?: Lease,
): Promise<ClaimedRows> {
  const statement = lease === undefined ? CLAIM_LOCKED : ofVersion(LEASE_LOCKED, lease.serverVersion)
  return toClaimedRows(await execute(statement, [queue, ids, ...leaseParams(lease)]))
}

const TEXT = {
  name: 'claim_locked',
  ctes: CLAIM_CLOCK,
  rows: `
  SELECT m.*
  FROM pg_catalog.unnest($2::bigint[]) AS given (id)
  CROSS JOIN LATERAL (
    SELECT ${CLAIMED_COLUMNS}
    FROM sluice.message m
    WHERE m.queue = $1::text AND m.id = given.id
    LIMIT 1
    FOR UPDATE OF m
  ) m`,
}
const CLAIM_LOCKED = lockingClaim(TEXT)
const LEASE_LOCKED = leasingClaim(TEXT, 3)
