import type { WireMessage } from '../environment/wire.ts'
import { networkOf } from '../run/fleet.ts'
import { LEASE_MS } from '../run/modes.ts'
import { scenario } from '../run/scenario.ts'
import { QUEUES_LOST_EVENTS_AGAIN } from '../twins/stream-twins.ts'
import { ENQUEUES_LOST_BATCHES_AGAIN, PRODUCER_ASKS_NOBODY } from '../twins/twins.ts'
import { commits, cutBefore } from './kill-at-wire.ts'

/** The server has committed, and nobody is told. */
export const commitUnanswered = scenario({
  name: 'commit-unanswered',
  title: "a worker's COMMIT takes effect, and its connection breaks before the answer",
  recoveryMs: 2_000,
  injections: { quick: 6, full: 40 },
  workers: { network: true },
  otherwise: {
    title:
      "the COMMIT of a worker's claim, settlement or handler takes effect, and its connection breaks before the answer",
    // Nobody knows of the leases of a claim whose answer is lost: its messages are free when they end.
    recoveryMs: LEASE_MS + 3_000,
    costsAttempts: true,
  },
  stream: { twin: QUEUES_LOST_EVENTS_AGAIN },
  twin: ENQUEUES_LOST_BATCHES_AGAIN,
  async inject(stage) {
    const network = networkOf(stage.victim())
    await stage.fault('answer of COMMIT lost', () =>
      cutBefore(network, (message, { from, application }) => {
        return from === 'server' && application === 'sluice' && saysCommitted(message)
      }),
    )
  },
})

/** For the one who enqueues it looks the same whether COMMIT or its answer is lost. */
export const enqueueCommitUnanswered = scenario({
  name: 'enqueue-commit-unanswered',
  title: "a producer's connection breaks before its COMMIT, or before the answer, in turn",
  recoveryMs: 2_000,
  injections: { quick: 8, full: 40 },
  workers: { network: true },
  otherwise: { inapplicable: 'a producer does not know the mode of the workers' },
  stream: { twin: PRODUCER_ASKS_NOBODY },
  twin: PRODUCER_ASKS_NOBODY,
  async inject(stage, at) {
    const network = stage.fleet.producerNetwork
    if (network === undefined) throw new Error('The producer has no network of its own')
    const answer = at % 2 === 0
    await stage.fault(answer ? "answer of a producer's COMMIT lost" : "a producer's COMMIT lost", () =>
      cutBefore(network, (message, { application }) => {
        return application === 'producer' && (answer ? saysCommitted(message) : commits(message))
      }),
    )
  },
})

/** The server's word: the type is also that of a client's Close, which is never about this. */
export function saysCommitted({ type, bytes }: WireMessage): boolean {
  return type === 'C' && bytes.toString('utf8', 5) === 'COMMIT\0'
}
