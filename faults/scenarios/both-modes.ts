import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { PASSES_CLOSED_KEYS } from '../twins/leased-twins.ts'

const BEHIND = 5

/** A roll-out from one mode to the other: keys stay in order across both, whoever dies meanwhile. */
export const bothModes = scenario({
  name: 'both-modes',
  title: 'SIGKILL workers of both modes on one queue, beside a key with its first message leased',
  mode: 'leased',
  otherwise: { inapplicable: 'the workers have both modes: it is in the other table' },
  recoveryMs: 15_000,
  injections: { quick: 3, full: 15 },
  costsAttempts: true,
  workers: { count: 4, bothModes: true, pipeline: { timeout: '2m' } },
  twin: PASSES_CLOSED_KEYS,
  async inject(stage, at) {
    const messages = [{ fate: 'hold', failures: 0 } as const, ...Array.from({ length: BEHIND }, () => FOLLOWER)]
    const ids = await stage.enqueueAll(messages, `both.${at}`)
    const [first = '', ...others] = ids
    await until(() => isLeased(stage, first), `message ${first} to be leased`, 30_000)
    const victim = stage.victim()
    await stage.fault(`killed a ${victim.mode} worker`, async () => {
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'effects' })
      await victim.actor.ended
    })
    await stage.replace(victim)
    await stage.flows()
    // What is broken does not wait for the first.
    if (stage.broken) for (const id of others) await stage.handled(id, 30_000)
    stage.fleet.go({ id: first })
    for (const id of ids) await stage.handled(id, 30_000)
  },
})

/** Not to be in time: it waits for the held one. */
const FOLLOWER = { fate: 'fail', failures: 0 } as const

async function isLeased(stage: Stage, id: string): Promise<boolean> {
  return (await stage.sql('SELECT FROM sluice.message WHERE id = $1 AND lease > 0', [id])).length > 0
}
