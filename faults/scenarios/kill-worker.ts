import type { Moment } from '../actors/worker-orders.ts'
import { type Otherwise, scenario } from '../run/scenario.ts'
import { NOBODY_RESCUES } from '../twins/leased-twins.ts'
import { PARKED_KEYS_PASS, PROGRESS_BEFORE_HANDLER } from '../twins/stream-twins.ts'
import { ACK_BEFORE_HANDLER, EFFECTS_BEFORE_SETTLEMENT, type Twin } from '../twins/twins.ts'

/** A worker kills itself at a moment of its own code, and another process takes its place. */
function killAt(at: Moment, title: string, twin: Twin, streamTwin: Twin, leased: Otherwise = {}) {
  return scenario({
    name: `kill-${at}`,
    title: `SIGKILL a worker ${title}`,
    recoveryMs: 5_000,
    injections: { quick: 3, full: 20 },
    costsAttempts: true,
    // Somebody must notice: the leases would last for long.
    otherwise: { recoveryMs: 15_000, workers: { pipeline: { lease: '10m' } }, ...leased },
    // Two groups are twice the work for whoever is left.
    stream: { recoveryMs: 8_000, twin: streamTwin },
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

export const killClaimed = killAt(
  'claimed',
  'after a claim, before the first handler',
  ACK_BEFORE_HANDLER,
  PARKED_KEYS_PASS,
  {
    injections: { quick: 1, full: 20 },
  },
)
export const killHandling = killAt('handling', 'in mid-handler', ACK_BEFORE_HANDLER, PROGRESS_BEFORE_HANDLER, {
  twin: NOBODY_RESCUES,
})
export const killEffects = killAt(
  'effects',
  "after a handler's effects",
  EFFECTS_BEFORE_SETTLEMENT,
  EFFECTS_BEFORE_SETTLEMENT,
)
