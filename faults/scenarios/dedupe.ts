import { networkOf } from '../run/fleet.ts'
import { LEASE_MS } from '../run/modes.ts'
import { scenario } from '../run/scenario.ts'
import { FORGETS_KEYS, FORGETS_KEYS_LEASED, POINTS_AT_NOBODY } from '../twins/dedupe-twins.ts'
import { saysCommitted } from './commit-unanswered.ts'
import { cutBefore } from './kill-at-wire.ts'

/** Half of the transactions enqueue a message with a key that all lanes use, before and after it is handled. */
const LOAD = { deduped: 0.5, lanes: 4, pauseMs: 30 }

export const dedupeKill = scenario({
  name: 'dedupe-kill',
  title: "SIGKILL a worker after a handler's effects, or a producer, in turn, with dedupe keys in the load",
  recoveryMs: 5_000,
  injections: { quick: 2, full: 20 },
  costsAttempts: true,
  load: LOAD,
  otherwise: { recoveryMs: 15_000, twin: FORGETS_KEYS_LEASED },
  twin: FORGETS_KEYS,
  async inject(stage, at) {
    if (at % 2 === 1) {
      await stage.fault('killed a producer', () => stage.fleet.producer?.kill())
      await stage.fleet.startProducer()
      return
    }
    const victim = stage.victim()
    await stage.fault('killed after effects', async () => {
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'effects' })
      await victim.actor.ended
    })
    await stage.replace(victim)
  },
})

export const dedupeUnanswered = scenario({
  name: 'dedupe-unanswered',
  title:
    'the COMMIT of a producer or a worker, in turn, takes effect and is not answered, with dedupe keys in the load',
  recoveryMs: 3_000,
  injections: { quick: 3, full: 30 },
  load: LOAD,
  workers: { network: true },
  otherwise: { recoveryMs: LEASE_MS + 3_000, costsAttempts: true, injections: { quick: 2, full: 30 } },
  twin: POINTS_AT_NOBODY,
  async inject(stage, at) {
    const producer = at % 2 === 0
    const network = producer ? stage.fleet.producerNetwork : networkOf(stage.victim())
    if (network === undefined) throw new Error('The producer has no network of its own')
    const whose = producer ? 'producer' : 'sluice'
    await stage.fault(`answer of the COMMIT of a ${producer ? whose : 'worker'} lost`, () =>
      cutBefore(network, (message, { from, application }) => {
        return from === 'server' && application === whose && saysCommitted(message)
      }),
    )
  },
})
