import { networkOf, type WorkerActor } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { REAPER_TAKES_ALL } from '../twins/leased-twins.ts'
import { claims } from './kill-at-wire.ts'

/** The first worker has room for three of them, which it gets with one claim. */
const HELD = { fate: 'hold', failures: 1 } as const

/**
 * A worker that has lost its control connection looks dead, and its leases are taken. Of its batch it has settled one
 * message, which another worker handles since: that is not to be taken.
 */
export const rescueAndSettle = scenario({
  name: 'rescue-and-settle',
  title:
    'a worker without a control connection is taken for dead: another, which already has a message of its batch, gets its leases, and it settles afterwards',
  mode: 'leased',
  otherwise: { inapplicable: 'there is nothing to rescue: locks end with their transaction' },
  recoveryMs: 10_000,
  flow: 0,
  injections: { quick: 2, full: 6 },
  costsAttempts: true,
  load: { lanes: 0 },
  workers: {
    count: 1,
    network: true,
    effects: 'elsewhere',
    pipeline: { concurrency: 3, lease: '10m', timeout: '5m' },
  },
  twin: REAPER_TAKES_ALL,
  async inject(stage) {
    const first = stage.victim()
    const [settled = '', ...held] = await stage.enqueueAll([HELD, HELD, HELD, HELD])
    await stage.begun(settled, 1)
    stage.fleet.go({ id: settled, attempt: 1 })
    // Now it has the three others, and no room for the one that it has failed.
    for (const id of held) await stage.begun(id, 1)
    const second = await stage.fleet.startWorker()
    await stage.begun(settled, 2)
    await stage.fault('taken for dead', () => loseControl(first))
    // The second may not have room for all of them beside the one that it holds.
    const others = held.map((id) => stage.begun(id, 2))
    await Promise.any(others)
    for (const id of held) stage.fleet.go({ id, attempt: 1 })
    stage.fleet.go({ id: settled }, ...held.map((id) => ({ id })))
    await Promise.all(others)
    for (const id of [settled, ...held]) await stage.handled(id, 20_000)
    await goBack(stage, first, second)
  },
})

/** And claims no more, so that what is taken from it does not come back. */
function loseControl(worker: WorkerActor): void {
  const network = networkOf(worker)
  network.passes = (message, { application }) => {
    if (application === 'sluice control') return 'cut'
    return claims(message) ? 'swallow' : true
  }
  network.cut('sluice control')
}

/** The first worker is alone again, with its connection. */
async function goBack(stage: Stage, first: WorkerActor, second: WorkerActor): Promise<void> {
  networkOf(first).passes = () => true
  networkOf(first).loseHalfOpen()
  // An open connection does not say it: that may be an attempt which has just failed, and the next one comes seconds later.
  const isBack = async () => {
    const alive = 'SELECT FROM sluice.workers WHERE name = $1 AND alive'
    return (await stage.sql(alive, [first.actor.name])).length > 0
  }
  await until(isBack, `${first.actor.name} to have its control connection`, 30_000)
  second.actor.order({ kind: 'stop' })
  await second.actor.told('stopped', 'stop')
  await second.actor.ended
}
