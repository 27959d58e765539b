import { installSqlClock, stepSqlClock } from '../environment/sql-clock.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { FIRES_WITHOUT_COMPARING } from '../twins/twins.ts'
import { onSteppableClock } from './clock-steps.ts'

/** The longest step of the clock, in milliseconds: within the grace of an occurrence, so that none may be left out. */
const LONGEST_MS = 1_500

const AT_ONCE = 3

/**
 * Every occurrence of a schedule is enqueued once, whoever dies. A trigger writes each into the ledger, in the transaction
 * that enqueues it, as one more try of one intent: two tries are a commit too many, and a second without one is a loss.
 */
export const schedules = scenario({
  name: 'schedules',
  title:
    'schedules for every second: SIGKILL a worker, terminate the sessions that enqueue an occurrence, and step the clock, in turn',
  otherwise: { inapplicable: 'schedules enqueue in the same way for both modes: see the other table' },
  recoveryMs: LONGEST_MS + 5_000,
  injections: { quick: 3, full: 18 },
  costsAttempts: true,
  environment: onSteppableClock,
  workers: { count: 4, pollIntervalMs: 200 },
  twin: FIRES_WITHOUT_COMPARING,
  async prepare(stage) {
    await installSqlClock((text, params) => stage.sql(text, params))
    await stage.sql(INTO_THE_LEDGER)
  },
  async inject(stage, at) {
    const names = Array.from({ length: AT_ONCE }, (_, nth) => `tick.${at}.${nth}`)
    await stage.sql(DEFINE, [names, stage.queue])
    await until(() => occurred(stage, names, 1), 'a first occurrence of each schedule', 20_000)
    await FAULTS[at % FAULTS.length]?.(stage, at)
    await until(() => occurred(stage, names, 3), 'two more occurrences of each schedule', 20_000)
    await stage.sql('SELECT sluice.schedule_delete(name) FROM unnest($1::text[]) AS name', [names])
  },
})

const FAULTS: readonly ((stage: Stage, at: number) => Promise<void>)[] = [
  async (stage) => {
    const victim = stage.victim()
    await until(() => enqueuing(stage), 'a session to enqueue an occurrence', 20_000)
    await stage.fault('killed a worker', async () => {
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'handling' })
      await victim.actor.ended
    })
    await stage.replace(victim)
  },
  async (stage) => {
    const end = async () => (await stage.sql(`SELECT pg_terminate_backend(pid) FROM (${ENQUEUING}) s`)).length > 0
    await stage.fault('ended sessions that enqueue an occurrence', () => until(end, 'a session to enqueue', 20_000))
  },
  async (stage, at) => {
    const ms = Math.round(LONGEST_MS * (0.3 + 0.7 * stage.random.next())) * (at % 2 === 0 ? 1 : -1)
    await stage.fault('stepped the clock', () => stepSqlClock((text, params) => stage.sql(text, params), ms))
  },
]

const DEFINE = `
SELECT sluice.schedule(name, $2::text, '{"fate": "ack", "failures": 0}', every => interval '1 second')
FROM unnest($1::text[]) AS name`

/** It takes a while to enqueue an occurrence, so that others meet it. */
const INTO_THE_LEDGER = `
CREATE FUNCTION ledger.write_occurrence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ledger.enqueued (message_id, intent, attempt, place, fate, failures)
  VALUES (NEW.id, format('occurrence of %s at %s', NEW.headers ->> 'schedule', NEW.headers ->> 'scheduledFor'), NEW.id::integer, 0, 'ack', 0);
  PERFORM pg_sleep(0.05);
  RETURN NULL;
END
$$;
CREATE TRIGGER writes_occurrence AFTER INSERT ON sluice.message FOR EACH ROW WHEN (NEW.headers ? 'schedule')
EXECUTE FUNCTION ledger.write_occurrence()`

const ENQUEUING = `
SELECT a.pid FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.application_name = 'sluice' AND a.state <> 'idle' AND a.query LIKE '%schedule_fire%'`

async function enqueuing(stage: Stage): Promise<boolean> {
  return (await stage.sql(ENQUEUING)).length > 0
}

async function occurred(stage: Stage, names: readonly string[], times: number): Promise<boolean> {
  const rows = await stage.sql(
    `SELECT FROM unnest($1::text[]) AS given (name)
     WHERE (SELECT count(*) FROM ledger.enqueued q WHERE q.intent LIKE format('occurrence of %s at %%', given.name)) < $2::integer`,
    [names, times],
  )
  return rows.length === 0
}
