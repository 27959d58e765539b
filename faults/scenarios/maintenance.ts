import type { WorkerActor } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { EXPIRES_IN_HAND } from '../twins/leased-twins.ts'
import { PRUNES_BY_THE_CLOCK } from '../twins/twins.ts'

/** For how long a message lives that is held: longer than it takes to be claimed on a busy machine. */
const LIFE_MS = 3_000

/** What is too old goes, day by day; what is in hand or has succeeded just now stays, whoever dies meanwhile. */
export const maintenance = scenario({
  name: 'maintenance',
  title: 'SIGKILL workers that settle with history and run maintenance every second; a message expires in flight',
  mode: 'leased',
  otherwise: { twin: PRUNES_BY_THE_CLOCK, workers: { pipeline: {} } },
  recoveryMs: 15_000,
  injections: { quick: 2, full: 12 },
  costsAttempts: true,
  workers: { maintenanceIntervalMs: 1_000, pipeline: { lease: '10m', timeout: '2m' } },
  twin: EXPIRES_IN_HAND,
  async prepare(stage) {
    await stage.sql('INSERT INTO sluice.queue (queue, history_ms) VALUES ($1, 86400000)', [stage.queue])
  },
  async inject(stage, at) {
    await addOldDay(stage, at)
    const hold = stage.victim().mode === 'leased' ? await holdMortal(stage) : undefined
    const victim = stage.fleet.workers.find((worker) => worker !== hold?.worker) ?? stage.victim()
    await stage.fault('killed beside maintenance', async () => {
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'effects' })
      await victim.actor.ended
    })
    await stage.replace(victim)
    await until(async () => (await oldDays(stage)) === 0, 'the old day to be dropped', 30_000)
    if (hold !== undefined) await endOfLife(stage, hold.id)
  },
})

/** A day of the history, a hundred and more days ago, with messages of a queue that nobody reads. */
async function addOldDay(stage: Stage, at: number): Promise<void> {
  await stage.sql(`
    DO $$ DECLARE day timestamptz := sluice_private.day_of(pg_catalog.now()) - interval '24 hours' * (100 + ${at}); BEGIN
      EXECUTE format('CREATE TABLE sluice.%I PARTITION OF sluice.completed_message FOR VALUES FROM (%L) TO (%L)',
        'completed_' || to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD'), day, day + interval '24 hours');
      INSERT INTO sluice.completed_message (queue, id, completed_at, priority, schema_version, payload, headers, attempt, enqueued_at)
      SELECT 'old', -n, day, 5, 1, '{}', '{}', 1, day FROM generate_series(1, 2000) n;
    END $$`)
}

async function oldDays(stage: Stage): Promise<number> {
  const rows = await stage.sql(`
    SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'sluice.completed_message'::regclass
      AND sluice_private.day_of_partition(c.relname::text) < pg_catalog.now() - interval '50 days'`)
  return rows.length
}

/** A message that is held by its handler, and whose life ends soon. */
async function holdMortal(stage: Stage): Promise<{ readonly id: string; readonly worker: WorkerActor }> {
  const [row] = await stage.sql(
    `WITH message AS (
       INSERT INTO sluice.message (queue, payload, expires_at)
       VALUES ($1, '{"fate": "hold", "failures": 0}', pg_catalog.clock_timestamp() + $2::double precision * interval '1 millisecond')
       RETURNING id
     )
     INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures)
     SELECT m.id, 'mortal.' || m.id, m.id, 'hold', 0 FROM message m RETURNING message_id::text AS id`,
    [stage.queue, LIFE_MS],
  )
  const id = String(row?.id)
  return { id, worker: await stage.begun(id, 1) }
}

/** Its life is over, passes of maintenance have been made since, and its handler goes on. */
async function endOfLife(stage: Stage, id: string): Promise<void> {
  const passes = `SELECT FROM sluice.maintenance g WHERE g.begun_at > (
    SELECT m.expires_at + interval '1500 milliseconds' FROM sluice.message m WHERE m.id = $1)`
  const isOver = async () =>
    (await stage.sql('SELECT FROM sluice.message WHERE id = $1', [id])).length === 0 ||
    (await stage.sql(passes, [id])).length > 0
  await until(isOver, 'a pass of maintenance', 30_000)
  stage.fleet.go({ id })
  // What is broken has removed it.
  if (!stage.broken) await stage.handled(id, 30_000)
}
