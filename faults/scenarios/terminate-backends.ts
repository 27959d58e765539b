import { LEASE_MS } from '../run/modes.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { FLOOR_NOT_LOWERED } from '../twins/twins.ts'

/** Each kind of connection by its application name. */
const KINDS = ['sluice', 'sluice control', 'sluice listener', 'producer'] as const

/** An administrator ends server processes of the fleet. */
export const terminateBackends = scenario({
  name: 'terminate-backends',
  title: 'pg_terminate_backend: all of batches, control, listener or producer in turn, and others at random',
  recoveryMs: 6_000,
  injections: { quick: 8, full: 40 },
  // An administrator who ends the session of one message ends an attempt of it.
  costsAttempts: true,
  load: { pauseMs: 500 },
  flow: 10,
  // Another worker would find with its own floor what this one passes over.
  workers: { count: 1, pipeline: { concurrency: 8 } },
  // Nobody knows of the leases of a claim whose answer is lost: its messages are free when they end.
  otherwise: { recoveryMs: LEASE_MS + 4_000 },
  twin: FLOOR_NOT_LOWERED,
  async prepare(stage) {
    await stage.sql(SLOW_HANDLERS)
  },
  async inject(stage, at) {
    const kind = KINDS[at % KINDS.length] ?? 'sluice'
    if (kind === 'sluice') await until(() => inHand(stage), 'messages to be in hand for a while', 30_000)
    await stage.fault(`terminated backends of "${kind}"`, () => terminate(stage, kind))
  },
})

/** What has been in hand for a tenth of a second is below where all claims begin: only a floor that goes down finds it. */
const SLOW_HANDLERS = `
CREATE FUNCTION ledger.take_time() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.25); RETURN NULL; END';
CREATE TRIGGER takes_time AFTER INSERT ON ledger.effect FOR EACH STATEMENT EXECUTE FUNCTION ledger.take_time()`

/** All of a kind, and some of the others. */
async function terminate(stage: Stage, kind: string): Promise<void> {
  const backends = await stage.sql(
    'SELECT pid, application_name FROM pg_stat_activity WHERE datname = current_database() AND application_name = ANY ($1::text[])',
    [KINDS],
  )
  const victims = backends
    .filter(({ application_name }) => application_name === kind || stage.random.chance(OTHERS))
    .map(({ pid }) => pid)
  await stage.sql('SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid', [victims])
}

const OTHERS = 0.2

/** For longer than claims look back: what is younger is found with a floor that is too high as well. */
async function inHand(stage: Stage): Promise<boolean> {
  const rows = await stage.sql("SELECT FROM sluice.in_flight WHERE running_for >= interval '150 milliseconds'")
  return rows.length > 0
}
