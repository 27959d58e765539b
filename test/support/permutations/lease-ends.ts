import { reapWorkers } from '../../../src/table/worker/reap.ts'
import type { ClaimStep } from './claims.ts'
import { leaseOf, workerOf } from './lease-of.ts'
import type { Rewrite } from './rewrite.ts'
import type { PlayedSession } from './stage.ts'

/** As if the time of a session's leases were over. Of those that it has lost nothing changes. */
export function expire(of: string): ClaimStep {
  return {
    name: `lets the leases of ${of} run out`,
    run: async ({ client }, { queue, ledger }) => {
      const { rows } = await client.query<{ id: string }>(
        `UPDATE sluice.message SET due_at = clock_timestamp() - interval '1 s' WHERE queue = $1 AND lease = $2
         RETURNING id::text AS id`,
        [queue, leaseOf(queue, of).lease],
      )
      ledger.expires(rows.map(({ id }) => id))
    },
  }
}

/** The reaper finds the process of a session dead, and ends its leases but for those that somebody has locked. */
export function rescue(of: string, ...twin: readonly Rewrite[]): ClaimStep {
  return {
    name: `finds the process of ${of} dead`,
    run: async (session, { queue, ledger }) => {
      await session.begin()
      await session.client.query(
        // Nobody holds its lock.
        'UPDATE sluice.worker SET pooled = false WHERE id = $1',
        [workerOf(queue, of)],
      )
      const before = await leasesIn(session, queue)
      await reapWorkers(session.execute(...twin), 0)
      const after = await leasesIn(session, queue)
      const changed = [...before].filter(([id, had]) => had !== after.get(id))
      const { lease } = leaseOf(queue, of)
      for (const [id] of changed.filter(([, had]) => had !== lease))
        ledger.wrong.push(`${session.name} frees ${ledger.numberOf(id)}, which ${of} does not have`)
      ledger.frees(
        session.name,
        changed.map(([id]) => id),
      )
    },
  }
}

async function leasesIn({ client }: PlayedSession, queue: string): Promise<ReadonlyMap<string, string | null>> {
  const { rows } = await client.query<{ id: string; lease: string | null }>(
    'SELECT id::text AS id, lease::text AS lease FROM sluice.message WHERE queue = $1',
    [queue],
  )
  return new Map(rows.map(({ id, lease }) => [id, lease]))
}

/** An operator cancels the messages of the queue: those that nobody has locked are gone. */
export const cancel: ClaimStep = {
  name: 'cancels what nobody has locked',
  run: async (session, { queue, ledger }) => {
    await session.begin()
    const { rows } = await session.client.query<{ id: string }>(
      `SELECT m.id::text AS id
       FROM (SELECT m.id FROM sluice.message m WHERE m.queue = $1 ORDER BY m.id OFFSET 0) m
       CROSS JOIN LATERAL sluice.cancel($1, m.id) c WHERE c.result = 'cancelled'`,
      [queue],
    )
    ledger.moves(
      session.name,
      rows.map(({ id }) => id),
      'cancelled',
    )
  },
}
