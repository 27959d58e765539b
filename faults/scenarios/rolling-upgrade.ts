import pg from 'pg'
import { migrate } from '../../src/index.ts'
import { recordMigrationSql, SCHEMA_VERSION } from '../../src/table/schema.ts'
import { SCHEMA_BUILD } from '../../src/table/schema-build.ts'
import { connect } from '../run/environment.ts'
import type { WorkerActor } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import type { Edit } from '../twins/twins.ts'

const FLOW_MS = 8_000

/** Migrations go ahead of the library, and a schema serves the library that came before it. */
export const rollingUpgrade = scenario({
  name: 'rolling-upgrade',
  title: 'an additive migration while workers run, then two versions side by side, then the old ones stop',
  recoveryMs: 3_000,
  flow: 40,
  injections: { quick: 2, full: 6 },
  // A handler that waits for the migration's locks may come to the end of its time.
  otherwise: { recoveryMs: 6_000, costsAttempts: true, injections: { quick: 1, full: 6 } },
  twin: {
    name: 'migration-that-takes',
    title: 'a migration that adds a column that older versions cannot leave out',
    caught: ['enqueue refused'],
  },
  async inject(stage, at) {
    const version = SCHEMA_VERSION + at + 1
    const old = stage.fleet.workers
    await stage.fault(`migrated to version ${version}`, () => upgrade(stage, version))
    await stage.flows(40, FLOW_MS)
    const { applied } = await migrate(stage.environment.url)
    if (applied.length > 0) throw new Error(`The old library migrated a newer schema: ${applied}`)
    for (const _ of old) await stage.fleet.startWorker({ edits: libraryOf(version) })
    await stage.flows(40, FLOW_MS)
    await stage.fault('the old version stopped', () => Promise.all(old.map(stop)))
  },
})

/**
 * As other migration tools would run what `npx sluice migrate --print` prints. It locks table after table, and workers
 * lock the same tables in another order: who is chosen as the victim of a deadlock has changed nothing, and tries again.
 */
async function upgrade(stage: Stage, version: number): Promise<void> {
  const text = `BEGIN; ${migration(version, stage.broken)} ${recordMigrationSql(`000${version}_made_up`)} COMMIT`
  const client = await connect(stage.environment.url)
  try {
    while (!(await isDone(client.query(text)))) await client.query('ROLLBACK')
  } finally {
    await client.end()
  }
}

/** Or, if not, the victim of a deadlock. */
function isDone(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    (error: unknown) => {
      if (error instanceof pg.DatabaseError && error.code === '40P01') return false
      throw error
    },
  )
}

function migration(version: number, broken: boolean): string {
  return `
SET LOCAL lock_timeout = '5min';
ALTER TABLE sluice.message ADD COLUMN note_${version} text ${broken ? "NOT NULL DEFAULT ''" : ''};
${broken ? `ALTER TABLE sluice.message ALTER COLUMN note_${version} DROP DEFAULT;` : ''}
ALTER TABLE sluice.worker ADD COLUMN note_${version} text;
ALTER TABLE sluice.batch_record ADD COLUMN note_${version} text;
DO $$ BEGIN EXECUTE pg_get_functiondef('sluice_private.wake_inserted'::regproc); END $$;
DO $$ BEGIN EXECUTE pg_get_functiondef('sluice.enqueue'::regproc); END $$;
CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer, OUT build text)
LANGUAGE sql IMMUTABLE AS $$SELECT ${version}, 1, '${SCHEMA_BUILD}'$$;
`
}

/** The library of that version: it needs its schema, and its claims read the new column. */
export function libraryOf(version: number): readonly Edit[] {
  return [
    { file: 'basics/version.ts', from: "= '0.1.0'", to: `= '${version}.0.0'` },
    { file: 'table/schema.ts', from: `SCHEMA_VERSION = ${SCHEMA_VERSION}`, to: `SCHEMA_VERSION = ${version}` },
    {
      file: 'table/claim/claim.ts',
      from: 'm.max_attempts, m.enqueued_at, m.lease,\n',
      to: `m.max_attempts, m.enqueued_at, m.lease, m.note_${version},\n`,
    },
  ]
}

async function stop({ actor }: WorkerActor): Promise<void> {
  actor.order({ kind: 'stop' })
  await actor.told('stopped', 'stop')
  await actor.ended
}
