import type { ClaimedRow } from '../../../src/table/claim/claim.ts'
import type { OrderedClaim } from '../../../src/table/claim/claim-ordered.ts'
import type { ClaimSnapshot } from '../../../src/table/claim/claim-snapshot.ts'

/** A claimed row of which only what is given matters. */
export function claimedRow(row: Partial<ClaimedRow> & { readonly id: string }): ClaimedRow {
  return {
    priority: 5,
    dueUs: 0,
    slot: null,
    orderingKey: null,
    type: null,
    schemaVersion: 1,
    payload: '{}',
    headers: '{}',
    attempt: 0,
    expired: false,
    maxAttempts: null,
    enqueuedUs: 0,
    options: null,
    ...row,
  }
}

/** An ordered claim of which only where the slots' live rows begin matters, and as of when. */
export function orderedClaim(
  firstLive: Readonly<Record<number, string>>,
  snapshot: Pick<ClaimSnapshot, 'xmin' | 'xid'>,
): OrderedClaim {
  const lines = Object.entries(firstLive).map(([slot, id]) => [Number(slot), id] as const)
  return {
    nowUs: 0,
    transaction: { pid: 1, startedUs: 0 },
    memory: '',
    evidence: false,
    rows: [],
    firstLive: new Map(lines),
    anyHeld: new Map(),
    walks: [],
    missed: [],
    snapshot: { ...snapshot, running: new Set() },
  }
}
