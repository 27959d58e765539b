import { scenario } from '../run/scenario.ts'
import { STOP_COUNTS } from '../twins/twins.ts'

/** What a second signal does to `sluice work`, under load, with another concurrency each time. */
export const redeploy = scenario({
  name: 'redeploy',
  title: 'stop a worker without time for its messages in flight, after its concurrency was changed',
  recoveryMs: 5_000,
  injections: { quick: 3, full: 20 },
  twin: STOP_COUNTS,
  async inject(stage, at) {
    for (const { actor } of stage.fleet.workers) actor.order({ kind: 'concurrency', to: 8 + 4 * (at % 3) })
    await stage.flows(20)
    const victim = stage.victim()
    await stage.fault('stopped with messages in hand', async () => {
      victim.actor.order({ kind: 'stop', timeoutMs: 0 })
      await victim.actor.told('stopped', 'stop')
      await victim.actor.ended
    })
    await stage.replace(victim)
  },
})
