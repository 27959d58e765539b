import { GROUPS } from '../ledger.ts'
import { connect } from '../run/environment.ts'
import type { WorkerActor } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { MOVED_BESIDE_BATCHES } from '../twins/stream-twins.ts'
import { isStopped } from './freeze-worker.ts'

/** How many positions behind what must be read again the target is at most. */
const FURTHER = 20

/** A move waits for what a member has in hand, so that nobody who goes on afterwards takes the group forward again. */
export const seek = scenario({
  name: 'seek',
  title: 'move a group back while a stopped member has its events in flight, which is then killed or goes on, in turn',
  mode: 'stream',
  otherwise: { inapplicable: 'a queue keeps nothing to go back to' },
  recoveryMs: 15_000,
  injections: { quick: 2, full: 16 },
  costsAttempts: true,
  // What is read again is not what is timed.
  load: { pauseMs: 300 },
  // It stands still for as long as the harness needs to see that the move waits.
  workers: { pipeline: { timeout: '10s' } },
  // Its second injection shows it: who is killed does not commit.
  twin: MOVED_BESIDE_BATCHES,
  async inject(stage, at) {
    const victim = stage.victim()
    const held = await standStill(stage, victim)
    await stage.fault('moved back', async () => {
      const target = Math.max(1, held.latest - stage.random.below(FURTHER))
      let isOver = false
      const moving = moveBack(stage, held.group, target).finally(() => {
        isOver = true
      })
      // Awaited later, perhaps after an error.
      moving.catch(() => undefined)
      await until(async () => isOver || (await isMoveWaiting(stage)), 'the move to wait', 30_000)
      victim.actor.signal(at % 2 === 0 ? 'SIGKILL' : 'SIGCONT')
      await moving
    })
    if (at % 2 === 0) await stage.replace(victim)
    // What is broken does not get there.
    if (stage.broken && at % 2 === 1) return
    await until(() => stage.caughtUp(), 'what is read again to be handled', stage.recoveryMs).catch(() => undefined)
  },
})

/** What a member has in hand. */
interface Held {
  readonly group: string
  /** The latest position to which the group can go back so that its partition has something to read again, and nothing is passed over. */
  readonly latest: number
}

/** Stops a worker that has an event in hand of a partition that its group has read from before. */
async function standStill(stage: Stage, { actor }: WorkerActor): Promise<Held> {
  return until(
    async () => {
      actor.order({ kind: 'signal', signal: 'SIGSTOP', at: 'handling' })
      await until(() => isStopped(actor.pid), `${actor.name} to stand still`, 30_000)
      const [row] = await stage.sql(HELD, [stage.queue, actor.name, [...GROUPS]])
      if (row !== undefined) return { group: String(row.group), latest: Number(row.latest) }
      actor.signal('SIGCONT')
      return undefined
    },
    `${actor.name} to have an event in hand behind another`,
    60_000,
  )
}

/** On a connection of its own, because it waits. */
async function moveBack(stage: Stage, group: string, target: number): Promise<void> {
  const client = await connect(stage.environment.ledgerUrl)
  try {
    await client.query('SELECT ledger.move_back($1, $2, $3)', [stage.queue, group, target])
  } finally {
    await client.end()
  }
}

async function isMoveWaiting(stage: Stage): Promise<boolean> {
  const rows = await stage.sql(
    `SELECT FROM pg_stat_activity a
     WHERE a.datname = current_database() AND a.query LIKE 'SELECT ledger.move_back%' AND a.wait_event_type = 'Lock'`,
  )
  return rows.length > 0
}

/** An event without a message in the group's queue is in hand from the log. */
const HELD = `
WITH progress AS (
  SELECT g.name, g.stream || ':' || g.name AS queue, p.partition, max(p.position) AS position
  FROM sluice.stream_group g JOIN sluice.group_progress p ON p.group_id = g.id
  WHERE g.stream = $1 GROUP BY g.stream, g.name, p.partition
)
SELECT held.name AS group, least(
  (SELECT max(e.position) FROM sluice.event e WHERE e.partition = held.partition AND e.position <= held.progress),
  (SELECT min(e.position) FROM sluice.event e JOIN progress p ON p.partition = e.partition WHERE p.name = held.name AND e.position > p.position),
  (SELECT min(m.event_position) FROM sluice.message m WHERE m.queue = held.queue)
)::double precision AS latest
FROM (
  SELECT p.name, p.queue, p.partition, p.position AS progress
  FROM ledger.started s
  JOIN sluice.event e ON e.position = s.message_id / 2
  JOIN progress p ON p.partition = e.partition AND p.name = ($3::text[])[s.message_id % 2 + 1] AND e.position > p.position
  WHERE s.worker = $2 ORDER BY s.at DESC LIMIT 1
) held
WHERE EXISTS (SELECT FROM sluice.event e WHERE e.partition = held.partition AND e.position <= held.progress)`
