import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { DROPS_UNREAD } from '../twins/stream-twins.ts'

const SEGMENT = 1_000_000_000

/** What one group has read and the other has not stays, however old it is; and it goes when both have. */
export const retention = scenario({
  name: 'retention',
  title:
    'segments that end and are dropped every second while members read and a session trims, one group does not read some of them, and a worker is killed',
  mode: 'stream',
  otherwise: { inapplicable: 'a queue has no segments' },
  recoveryMs: 10_000,
  injections: { quick: 1, full: 8 },
  costsAttempts: true,
  workers: { maintenanceIntervalMs: 1_000 },
  twin: DROPS_UNREAD,
  async prepare(stage) {
    await stage.sql('UPDATE sluice.stream SET segment_ms = 1000, retain_ms = 1000 WHERE stream = $1', [stage.queue])
    // One that is paused would give up what it has not read.
    await stage.sql("SELECT sluice.group_set($1, 'two', keep_unread => true)", [stage.queue])
  },
  async inject(stage) {
    const victim = stage.victim()
    const opened = await stage.fault('stood still', async () => {
      const { newest } = await segments(stage)
      await stage.sql("SELECT sluice.pause($1 || ':two')", [stage.queue])
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'effects' })
      await victim.actor.ended
      await stage.replace(victim)
      const later = newest + 2 * SEGMENT
      const ended = async () => {
        await trim(stage)
        return (await segments(stage)).newest >= later
      }
      await until(ended, 'two segments to end', 30_000)
      // What is broken drops what it must not.
      if (stage.broken) await dropped(stage, newest)
      await stage.sql("SELECT sluice.resume($1 || ':two')", [stage.queue])
      return newest
    })
    await dropped(stage, opened)
  },
})

/** All that the groups have read. */
async function trim(stage: Stage): Promise<void> {
  await stage.sql('SELECT sluice.trim_stream($1, $2)', [stage.queue, Number.MAX_SAFE_INTEGER])
}

/** Resolves when the segment with this first position is gone. */
async function dropped(stage: Stage, first: number): Promise<void> {
  await until(async () => (await segments(stage)).oldest > first, 'segments to be dropped', 30_000)
}

async function segments(stage: Stage): Promise<{ readonly oldest: number; readonly newest: number }> {
  const [row] = await stage.sql(`
    SELECT min(g.first)::double precision AS oldest, max(g.first) FILTER (WHERE g.opened_at IS NOT NULL)::double precision AS newest
    FROM sluice.segment g`)
  return { oldest: Number(row?.oldest), newest: Number(row?.newest) }
}
