import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { FAILED_EVENTS_PASS } from '../twins/stream-twins.ts'

/** What fails is tried again before anything that follows it in its partition, and who tries it may die meanwhile. */
export const partitionStops = scenario({
  name: 'partition-stops',
  title:
    'groups that stop at a failed event until it is skipped, while their other partitions go on and a worker is killed',
  mode: 'stream',
  otherwise: { inapplicable: 'a queue has no partitions that stop: see the held key' },
  recoveryMs: 10_000,
  injections: { quick: 2, full: 10 },
  costsAttempts: true,
  // One that fails for good would stop a partition that nobody looks after.
  load: { dying: 0 },
  twin: FAILED_EVENTS_PASS,
  async prepare(stage) {
    await stage.sql(
      "SELECT sluice.group_set(g.stream, g.name, on_failure => 'stop') FROM sluice.stream_group g WHERE g.stream = $1",
      [stage.queue],
    )
  },
  async inject(stage, at) {
    const [row] = await stage.sql(APPEND_BAD, [stage.queue, `stage.bad.${at}`])
    const position = Number(row?.position)
    await stage.fault('stopped a partition', async () => {
      // What is broken passes the event, and does not stop.
      if (!stage.broken) await until(() => hasStopped(stage, position), `both groups to stop at ${position}`, 20_000)
      const victim = stage.victim()
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'effects' })
      await victim.actor.ended
      await stage.replace(victim)
      await stage.flows(40)
      await stage.sql('SELECT sluice.skip_event(g.stream, g.name, $2) FROM sluice.stream_group g WHERE g.stream = $1', [
        stage.queue,
        position,
      ])
    })
  },
})

async function hasStopped(stage: Stage, position: number): Promise<boolean> {
  const rows = await stage.sql(
    "SELECT FROM sluice.group_partitions r WHERE r.stream = $1 AND r.next_position = $2 AND r.held_until = 'infinity'",
    [stage.queue, position],
  )
  return rows.length === 2
}

const APPEND_BAD = `
WITH event AS MATERIALIZED (
  SELECT sluice.append($1::text, '{"fate": "die", "failures": 0}') AS position
), booked AS (
  INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures)
  SELECT ledger.delivery(e.position, g.stream || ':' || g.name), $2::text, e.position, 'die', 0
  FROM event e CROSS JOIN sluice.stream_group g WHERE g.stream = $1::text
)
SELECT e.position FROM event e`
