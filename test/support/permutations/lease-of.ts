import { inject } from 'vitest'
import { type Lease, leaseOf as leaseNumber } from '../../../src/table/claim/lease.ts'
import type { LeasedId } from '../../../src/table/settle/settle-leased.ts'
import type { ClaimWorld } from './claims.ts'

export const SERVER_VERSION = inject('serverVersion')
export const LEASE_MS = 600_000

/** Of each session in each play: a worker of its own, which nobody has registered. */
const workers = new Map<string, number>()

/** The lease of a session's claim. */
export function leaseOf(queue: string, session: string): Lease {
  return { lease: leaseNumber(workerOf(queue, session), 1), ms: LEASE_MS, serverVersion: SERVER_VERSION }
}

export function workerOf(queue: string, session: string): number {
  const play = `${queue} ${session}`
  const known = workers.get(play) ?? workers.size + 1
  workers.set(play, known)
  return known
}

/** What a session has leased, whether it still has it or not. */
export function leasedIds({ queue, hands }: ClaimWorld, session: string): readonly LeasedId[] {
  const { lease } = leaseOf(queue, session)
  return (hands.get(session) ?? []).map(({ id }) => ({ id, lease }))
}
