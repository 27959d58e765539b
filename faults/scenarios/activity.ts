import { setTimeout as pause } from 'node:timers/promises'
import { statementOf, type WireMessage } from '../environment/wire.ts'
import { networkOf, type WorkerActor } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { NUMBERS_AGAIN } from '../twins/operation-twins.ts'

/** Stands for the minute of the library, so that a run has many rows. */
const MINUTE_MS = 300
/** What a worker loses that is killed: its last minute, and on a busy machine as long as its row may take. */
const LOSES_MS = 2_000

/** What was done is counted once, whatever is lost but the worker, and then all of it but for the last minute. */
export const activity = scenario({
  name: 'activity',
  title:
    "a worker's activity is committed, and its connection breaks before the answer; SIGKILL a worker between two rows, in turn",
  recoveryMs: 10_000,
  injections: { quick: 2, full: 12 },
  costsAttempts: true,
  // What counts is what is counted: a backlog would only take time.
  load: { lanes: 1 },
  workers: {
    network: true,
    edits: [
      { file: 'services/activity-log.ts', from: 'const MINUTE_MS = 60_000', to: `const MINUTE_MS = ${MINUTE_MS}` },
    ],
  },
  // Leases that nobody gives back, and the workers that are left.
  otherwise: { recoveryMs: 20_000 },
  stream: {},
  twin: NUMBERS_AGAIN,
  prepare: async (stage) => void (await stage.sql(BOOK_WORKERS)),
  async inject(stage, at) {
    const victim = stage.victim()
    await (at % 2 === 0 ? loseAnswer(stage, victim) : kill(stage, victim))
  },
})

async function loseAnswer(stage: Stage, victim: WorkerActor): Promise<void> {
  const network = networkOf(victim)
  const before = await rowsOf(stage, victim)
  let asking: object | undefined
  network.passes = (message, { from, connection }) => {
    if (from === 'client' && writesActivity(message)) asking ??= connection
    return from === 'server' && connection === asking ? 'wait' : true
  }
  await stage.fault('answer of an activity lost', async () => {
    await until(async () => asking !== undefined && (await rowsOf(stage, victim)) > before, 'an activity', 30_000)
    network.cut('sluice control')
    network.passes = () => true
  })
  const after = await rowsOf(stage, victim)
  await until(async () => (await rowsOf(stage, victim)) > after + 1, 'the next activities', 30_000)
}

async function kill(stage: Stage, victim: WorkerActor): Promise<void> {
  const { name } = victim.actor
  const isDue = async () => (await stage.sql(HAS_DUE, [name, LOSES_MS])).length > 0
  await until(isDue, `an activity of ${name}, and effects before it`, 30_000)
  await pause(stage.random.next() * MINUTE_MS)
  await stage.fault('killed between two activities', async () => {
    await stage.sql('UPDATE ledger.worker SET killed_at = pg_catalog.clock_timestamp() WHERE name = $1', [name])
    await victim.actor.kill()
  })
  await stage.replace(victim)
}

function writesActivity(message: WireMessage): boolean {
  return statementOf(message)?.startsWith('sluice_activity') === true
}

async function rowsOf(stage: Stage, { actor }: WorkerActor): Promise<number> {
  const text =
    'SELECT count(*)::integer AS rows FROM sluice.worker_activity a JOIN ledger.worker w ON w.id = a.worker_id WHERE w.name = $1'
  return Number((await stage.sql(text, [actor.name]))[0]?.rows)
}

const BOOK_WORKERS = `
CREATE FUNCTION ledger.book_worker() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ledger.worker (id, name, loses) VALUES (NEW.id, NEW.name, interval '${LOSES_MS} milliseconds');
  RETURN NULL;
END
$$;
CREATE TRIGGER books_worker AFTER INSERT ON sluice.worker FOR EACH ROW EXECUTE FUNCTION ledger.book_worker()`

/** It writes its activity now, and has done something that must be in it. */
const HAS_DUE = `
SELECT FROM ledger.effect e
WHERE e.worker = $1 AND e.at < pg_catalog.clock_timestamp() - $2::integer * interval '1 millisecond'
  AND EXISTS (
    SELECT FROM sluice.worker_activity a JOIN ledger.worker w ON w.id = a.worker_id
    WHERE w.name = $1 AND a.at > pg_catalog.clock_timestamp() - interval '${2 * MINUTE_MS} milliseconds'
  )
LIMIT 1`
