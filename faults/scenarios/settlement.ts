import type { TcpProxy } from '../environment/tcp-proxy.ts'
import type { WireMessage } from '../environment/wire.ts'
import { networkOf } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { POSTPONED_WITHOUT_LEASE, SETTLEMENT_ENQUEUES_AGAIN } from '../twins/leased-twins.ts'
import { saysCommitted } from './commit-unanswered.ts'
import { isStopped } from './freeze-worker.ts'
import { type LeasedStatement, sends } from './leased-statements.ts'

const IN_ITS_BATCH = { inapplicable: 'a settlement commits together with its batch: see the COMMIT without an answer' }

/** Once settled, never twice: what is sent again finds its lease gone. */
export const settlementUnanswered = scenario({
  name: 'settlement-unanswered',
  title: 'settlements of successes and of failures, in turn, take effect, and the connection breaks before the answer',
  mode: 'leased',
  otherwise: IN_ITS_BATCH,
  recoveryMs: 5_000,
  injections: { quick: 6, full: 40 },
  load: { failing: 0.3, lanes: 1 },
  flow: 5,
  // Whoever failed for want of time would have had its effect.
  workers: { network: true, effects: 'elsewhere', pipeline: { lease: '2m', timeout: '2m' } },
  twin: SETTLEMENT_ENQUEUES_AGAIN,
  async inject(stage, at) {
    const networks = stage.fleet.workers.map(networkOf)
    const statement = at % 2 === 0 ? 'ack_leased' : 'postpone_leased'
    await stage.fault('answer of a settlement lost', () => cutBeforeAnswer(networks, statement))
  },
})

/** Breaks one connection that has sent such a settlement, in front of the answer to its COMMIT. */
async function cutBeforeAnswer(networks: readonly TcpProxy[], statement: LeasedStatement): Promise<void> {
  let settling: object | undefined
  let broken = false
  for (const network of networks) {
    network.passes = (message, { from, connection }) => {
      if (broken) return true
      if (from === 'client' && sends(message, statement)) settling ??= connection
      if (from === 'client' || connection !== settling || !saysCommitted(message)) return true
      broken = true
      return 'cut'
    }
  }
  await until(() => broken, 'a settlement to be answered', 30_000)
}

const MEANWHILE = 20

/** Whatever a process has sent before it was stopped arrives some day. */
export const lateSettlement = scenario({
  name: 'late-settlement',
  title: 'SIGSTOP a worker past its lease while its settlement is on the way; both go on when another has the message',
  mode: 'leased',
  otherwise: { inapplicable: 'a settlement that comes late comes to a transaction that the server has ended' },
  recoveryMs: 15_000,
  flow: 0,
  injections: { quick: 2, full: 6 },
  costsAttempts: true,
  // Whatever else it had in hand would be handled again, and with effects elsewhere that would be no fault.
  load: { lanes: 0 },
  workers: { network: true, effects: 'elsewhere', pipeline: { lease: '4s', timeout: '2m' } },
  twin: POSTPONED_WITHOUT_LEASE,
  async inject(stage) {
    const id = await stage.enqueue('hold', 1)
    const worker = await stage.begun(id, 1)
    const network = networkOf(worker)
    const settlement = keepBack(network)
    stage.fleet.go({ id, attempt: 1 })
    await until(() => settlement.isSent, 'the settlement to be sent', 20_000)
    worker.actor.signal('SIGSTOP')
    await until(() => isStopped(worker.actor.pid), `${worker.actor.name} to stand still`, 10_000)
    await stage.fault('stopped with a settlement on its way', () => enqueueMany(stage))
    await stage.begun(id, 2)
    settlement.letGo()
    await until(() => settlement.isAnswered, 'the late settlement to be answered', 20_000)
    worker.actor.signal('SIGCONT')
    stage.fleet.go({ id })
    await stage.handled(id, 20_000)
  },
})

async function enqueueMany(stage: Stage): Promise<void> {
  await stage.enqueueAll(Array.from({ length: MEANWHILE }, () => ({ fate: 'ack', failures: 0 })))
}

/** Keeps the next failure that is settled, from the begin of its transaction, and then sees what came of it. */
function keepBack(network: TcpProxy) {
  let isKept = true
  let isSent = false
  let settling: object | undefined
  let isAnswered = false
  network.sees = (message) => {
    if (sends(message, 'postpone_leased')) isSent = true
  }
  network.passes = (message, { from, application, connection }) => {
    if (application !== 'sluice') return true
    if (from === 'client') {
      if (!isSent || !isKept || !begins(message)) return true
      settling = connection
      return 'wait'
    }
    if (connection === settling && saysCommitted(message)) isAnswered = true
    return true
  }
  return {
    get isSent() {
      return isSent
    },
    get isAnswered() {
      return isAnswered
    },
    letGo() {
      isKept = false
      network.letGo()
    },
  }
}

/** Something may be sent together with it, in front of it. */
function begins({ type, bytes }: WireMessage): boolean {
  return type === 'Q' && bytes.includes('BEGIN ISOLATION LEVEL')
}
