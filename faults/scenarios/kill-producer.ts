import { setTimeout as pause } from 'node:timers/promises'
import { scenario } from '../run/scenario.ts'
import { TWO_TRANSACTIONS } from '../twins/twins.ts'

/** Longer than nearly every transaction of the load. */
const WITHIN_MS = 100

export const killProducer = scenario({
  name: 'kill-producer',
  title: 'SIGKILL a producer at any moment, and start another',
  recoveryMs: 2_000,
  injections: { quick: 5, full: 30 },
  otherwise: { inapplicable: 'a producer does not know the mode of the workers' },
  stream: { twin: TWO_TRANSACTIONS },
  twin: TWO_TRANSACTIONS,
  async inject(stage) {
    await pause(stage.random.next() * WITHIN_MS)
    await stage.fault('killed a producer', () => stage.fleet.producer?.kill())
    await stage.fleet.startProducer()
  },
})
