import type pg from 'pg'
import { inject } from 'vitest'
import { type Lease, leaseOf as leaseNumber } from '../../../src/table/claim/lease.ts'
import type { LeasedId } from '../../../src/table/settle/fence.ts'
import type { ClaimWorld } from './claims.ts'

export const SERVER_VERSION = inject('serverVersion')
export const LEASE_MS = 600_000

/** Of each session in each play: a worker of its own. */
const workers = new Map<string, number>()

/** The lease of a session's claim. */
export function leaseOf(queue: string, session: string): Lease {
  return { lease: leaseNumber(workerOf(queue, session), 1), ms: LEASE_MS, serverVersion: SERVER_VERSION }
}

/**
 * Registers the workers of sessions. As behind a pooler, where a worker counts as alive that has been heard of, so that
 * the reaper finds none of them dead.
 */
export async function register(client: pg.Client, queue: string, sessions: ReadonlySet<string>): Promise<void> {
  await client.query(
    `INSERT INTO sluice.worker (id, name, host, pid, version, pooled) OVERRIDING SYSTEM VALUE
     SELECT id, 'session', 'host', 1, '0', true FROM unnest($1::integer[]) AS id`,
    [[...sessions].map((session) => workerOf(queue, session))],
  )
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
