import type { Moment } from '../actors/worker-process.ts'
import { type Otherwise, scenario } from '../run/scenario.ts'
import { NOBODY_RESCUES } from '../twins/leased-twins.ts'
import { ACK_BEFORE_HANDLER, EFFECTS_BEFORE_SETTLEMENT, type Twin } from '../twins/twins.ts'

/** A worker kills itself at a moment of its own code, and another process takes its place. */
function killAt(at: Moment, title: string, twin: Twin, leased: Otherwise = {}) {
  return scenario({
    name: `kill-${at}`,
    title: `SIGKILL a worker ${title}`,
    recoveryMs: 5_000,
    injections: { quick: 3, full: 20 },
    costsAttempts: true,
    // Somebody must notice: the leases would last for long.
    otherwise: { recoveryMs: 15_000, workers: { pipeline: { lease: '10m' } }, ...leased },
    twin,
    async inject(stage) {
      const victim = stage.victim()
      await stage.fault(`killed ${title}`, async () => {
        victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at })
        await victim.actor.ended
      })
      await stage.replace(victim)
    },
  })
}

export const killClaimed = killAt('claimed', 'after a claim, before the first handler', ACK_BEFORE_HANDLER, {
  injections: { quick: 0, full: 20 },
})
export const killHandling = killAt('handling', 'in mid-handler', ACK_BEFORE_HANDLER, { twin: NOBODY_RESCUES })
export const killEffects = killAt('effects', "after a handler's effects", EFFECTS_BEFORE_SETTLEMENT)
