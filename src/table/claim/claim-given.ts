import { ofVersion } from '../rows-by-id.ts'
import type { Execute } from '../statement.ts'
import { CLAIM_CLOCK, CLAIMED_COLUMNS, type Claim, leasingClaim, toClaim } from './claim.ts'
import { type Lease, leaseParams } from './lease.ts'

/**
 * Leases one message, due or not, and records it as a batch. The primary key leads to it. Without SKIP LOCKED, because
 * the transaction that runs this has inserted the message, and no other session sees it.
 */
export async function claimGiven(execute: Execute, queue: string, id: string, lease: Lease): Promise<Claim> {
  return toClaim(await execute(ofVersion(CLAIM_GIVEN, lease.serverVersion), [queue, id, ...leaseParams(lease)]))
}

const CLAIM_GIVEN = leasingClaim(
  {
    name: 'claim_given',
    ctes: CLAIM_CLOCK,
    rows: `
  SELECT ${CLAIMED_COLUMNS}
  FROM sluice.message m
  WHERE m.queue = $1::text AND m.id = $2::bigint
  FOR UPDATE OF m`,
  },
  3,
)
