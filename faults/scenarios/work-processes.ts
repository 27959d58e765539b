import { setTimeout as sleep } from 'node:timers/promises'
import type { WorkerActor } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { HEARS_NO_SIGNAL, LEAVES_WITH_ZERO } from '../twins/work-twins.ts'

const WORKERS = { program: 'sluice work', lingerMs: 20 } as const

/** As an orchestrator ends processes, and as machines do. */
export const workProcesses = scenario({
  name: 'work-processes',
  title: 'processes of `sluice work`: SIGTERM one with messages in flight, SIGTERM one twice, and SIGKILL one, in turn',
  recoveryMs: 10_000,
  injections: { quick: 3, full: 12 },
  costsAttempts: true,
  load: { lanes: 1, pauseMs: 100, long: 0 },
  flow: 5,
  workers: WORKERS,
  otherwise: { recoveryMs: 15_000, workers: { ...WORKERS, pipeline: { lease: '10m' } }, twin: HEARS_NO_SIGNAL },
  twin: LEAVES_WITH_ZERO,
  async inject(stage, at) {
    const signals = [1, 2, 0][at % 3] ?? 0
    const victim = stage.victim()
    await stage.enqueueAll(Array.from({ length: BURST }, () => ({ fate: 'ack', failures: 0 })))
    await stage.fault(TITLES[signals] ?? '', async () => {
      if (signals < 2)
        victim.actor.order({ kind: 'signal', signal: signals === 0 ? 'SIGKILL' : 'SIGTERM', at: 'handling' })
      else await signalTwice(stage, victim)
      const code = await victim.actor.ended
      await stage.sql('INSERT INTO ledger.exit VALUES ($1, $2, $3)', [victim.actor.name, signals, String(code)])
    })
    await stage.replace(victim)
  },
})

const TITLES = ['killed', 'told to end', 'told to end twice']

const BURST = 20

/** Two that wait at the same time are one. */
const BETWEEN_MS = 20

async function signalTwice(stage: Stage, victim: WorkerActor): Promise<void> {
  await until(() => isBusy(stage, victim), `${victim.actor.name} to have a message in hand`, 30_000)
  victim.actor.signal('SIGTERM')
  await sleep(BETWEEN_MS)
  victim.actor.signal('SIGTERM')
}

/** It has begun something, and not ended it. */
async function isBusy(stage: Stage, { actor }: WorkerActor): Promise<boolean> {
  const rows = await stage.sql(
    `SELECT FROM ledger.started s JOIN ledger.enqueued q ON q.message_id = s.message_id AND q.fate = 'ack'
     WHERE s.worker = $1 AND NOT EXISTS (
       SELECT FROM ledger.effect e WHERE e.message_id = s.message_id AND e.attempt = s.attempt AND e.worker = s.worker
     )`,
    [actor.name],
  )
  return rows.length > 0
}
