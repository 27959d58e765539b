import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { TRANSACTION_WITHOUT_LEASE } from '../twins/leased-twins.ts'

/** What comes behind the held message with the same key. */
const BEHIND = 3

/** The handler is not told: it finds out when it ends, and then the next one has the message already. */
export const leaseLost = scenario({
  name: 'lease-lost',
  title: 'an UPDATE that ends a lease in mid-handler, and two handlers of one message that run side by side',
  mode: 'leased',
  otherwise: { inapplicable: 'there is no lease to lose: while a handler runs, its row is locked' },
  recoveryMs: 10_000,
  injections: { quick: 4, full: 20 },
  // A lease that has run out counts as an attempt.
  costsAttempts: true,
  // Nothing is renewed meanwhile, and with one place each the next handler is another process's.
  load: { lanes: 1, pauseMs: 500 },
  flow: 5,
  workers: { count: 3, pipeline: { concurrency: 1, lease: '10m', timeout: '2m' } },
  twin: TRANSACTION_WITHOUT_LEASE,
  async inject(stage, at) {
    const messages = [{ fate: 'hold', failures: 0 } as const, ...Array.from({ length: BEHIND }, () => FOLLOWER)]
    const [id = ''] = await stage.enqueueAll(messages, at % 2 === 0 ? `lost.${at}` : null)
    await stage.begun(id, 1)
    await stage.fault('lease ended', () => endLease(stage, id))
    await stage.begun(id, 2)
    stage.fleet.go({ id })
    await stage.handled(id, 20_000)
  },
})

/** Not to be in time: it waits for the held one. */
const FOLLOWER = { fate: 'fail', failures: 0 } as const

async function endLease(stage: Stage, id: string): Promise<void> {
  await stage.sql('UPDATE sluice.message SET due_at = pg_catalog.clock_timestamp() WHERE id = $1 AND lease > 0', [id])
}
