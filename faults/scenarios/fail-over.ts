import { type StandbyPairEnvironment, standbyPairEnvironment } from '../environment/standby-pair.ts'
import { LEASE_MS } from '../run/modes.ts'
import { scenario } from '../run/scenario.ts'
import { until } from '../run/until.ts'
import type { Twin } from '../twins/twins.ts'

const LANES = 3

const ASYNCHRONOUS = {
  name: 'asynchronous',
  title: 'producers and workers whose COMMIT does not wait for the standby',
  load: { rollbacks: 0 },
  sql: 'ALTER ROLE postgres SET synchronous_commit = local',
  caught: ['commit denied', 'lost'],
} as const satisfies Twin

/**
 * What was acknowledged is on the standby, and what is not there was not acknowledged. A producer whose COMMIT hung asks
 * the new primary for its row: transaction ids that the old one gave out last are given out again.
 */
export const failOver = scenario<StandbyPairEnvironment>({
  name: 'fail-over',
  title:
    'commits that hang because the synchronous standby gets nothing, then the primary dies and the standby takes over',
  recoveryMs: 5_000,
  flow: 60,
  injections: { quick: 1, full: 1 },
  environment: standbyPairEnvironment,
  load: { asks: 'row', lanes: LANES },
  // Nobody knows of the leases of a claim whose answer is lost: its messages are free when they end.
  otherwise: { recoveryMs: LEASE_MS + 5_000, costsAttempts: true },
  stream: { injections: { quick: 1, full: 1 }, twin: ASYNCHRONOUS },
  twin: ASYNCHRONOUS,
  inject: (stage) =>
    stage.fault('failed over', async () => {
      const { pair } = stage.environment
      pair.freezeReplication()
      try {
        await until(async () => (await pair.primary.sql(HANGING)).length >= LANES, 'all producers to hang', 5_000)
      } catch (error) {
        // Else the producer could not stop either, and its complaint would hide this one.
        pair.thawReplication()
        throw error
      }
      await pair.failOver()
    }),
})

/**
 * A producer hangs in its COMMIT, or, after it, in what it writes into its books. A COMMIT that has notified keeps the
 * server's lock for NOTIFY while it waits for the standby, so the next one that has notified waits for that lock instead.
 */
export const HANGING = `
SELECT FROM pg_stat_activity
WHERE (application_name = 'producer' AND query = 'COMMIT' OR query LIKE 'INSERT INTO ledger.told%')
  AND (wait_event = 'SyncRep' OR wait_event_type = 'Lock')`
