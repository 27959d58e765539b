import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { FLOOR_NOT_LOWERED } from '../twins/twins.ts'

/** Each kind of connection by its application name. */
const KINDS = ['sluice', 'sluice control', 'sluice listener', 'producer'] as const
const AT_MOST = 4

/** An administrator ends server processes of the fleet: of one kind in turn, and perhaps of others as well. */
export const terminateBackends = scenario({
  name: 'terminate-backends',
  title: 'pg_terminate_backend: batches, control, listener and the producer in turn, and others at random',
  recoveryMs: 4_000,
  injections: { quick: 8, full: 40 },
  twin: FLOOR_NOT_LOWERED,
  async inject(stage, at) {
    const kind = KINDS[at % KINDS.length] ?? 'sluice'
    await stage.fault(`terminated backends of "${kind}"`, () => terminate(stage, kind))
  },
})

async function terminate(stage: Stage, kind: string): Promise<void> {
  const backends = await stage.sql(
    'SELECT pid, application_name FROM pg_stat_activity WHERE datname = current_database() AND application_name = ANY ($1::text[])',
    [KINDS],
  )
  const ranked = backends
    .map(({ pid, application_name }) => ({ pid, rank: stage.random.next() + (application_name === kind ? 0 : 1) }))
    .sort((a, b) => a.rank - b.rank)
  const victims = ranked.slice(0, 1 + stage.random.below(AT_MOST)).map(({ pid }) => pid)
  await stage.sql('SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid', [victims])
}
