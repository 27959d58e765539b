import { setTimeout as pause } from 'node:timers/promises'
import type { Moment } from '../actors/worker-orders.ts'
import { STREAM } from '../environment/nats-place.ts'
import type { OwnServer } from '../environment/own-server.ts'
import { statementOf, type WireMessage } from '../environment/wire.ts'
import { addConsumer, CONSUMER, type WithInbox, withInbox, withInboxAndServer } from '../environment/with-inbox.ts'
import { type WithRabbitmq, withRabbitmqInbox } from '../environment/with-rabbitmq.ts'
import type { Environment } from '../run/environment.ts'
import { networkOf } from '../run/fleet.ts'
import { type Scenario, scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { ACKS_FIRST, ACKS_WHAT_FAILED, RECEIPTS_NOT_UNIQUE } from '../twins/inbox-twins.ts'
import { isStopped } from './freeze-worker.ts'
import { cutBefore } from './kill-at-wire.ts'
import { killInboxBroker } from './kill-inbox-broker.ts'
import { untilRefused, untilUp } from './until-refused.ts'

/**
 * One process relays the load to a broker, receives it again and handles it: where several receive, order is not promised. What it
 * has in hand may fail when it is killed, or stands still.
 */
const RECEIVED = {
  // A new connection to NATS waits for what the old one had, and for what that one had asked for.
  recoveryMs: 15_000,
  load: { failing: 0, dying: 0, long: 0 },
  workers: { count: 1 },
  costsAttempts: true,
  environment: withInbox,
  otherwise: { inapplicable: 'an inbox has one mode, and the handlers behind it are those of the other lines' },
} as const satisfies Partial<Scenario<WithInbox>>

/** A new process receives after nine seconds. The load is slower, because the machine's speed would decide how fast the backlog shrinks. */
const REPLACED = {
  ...RECEIVED,
  recoveryMs: 30_000,
  injections: { quick: 1, full: 6 },
  load: { ...RECEIVED.load, lanes: 2, pauseMs: 200 },
} as const

export const inboxKillStore = scenario<WithInbox>({
  ...REPLACED,
  name: 'inbox-kill-store',
  title: 'SIGKILL the process of an inbox that has received a batch, before the COMMIT that stores it',
  workers: { count: 1, network: true },
  twin: ACKS_FIRST,
  async inject(stage) {
    const victim = stage.victim()
    await stage.fault('killed before its COMMIT', async () => {
      await cutBefore(networkOf(victim), stores, () => victim.actor.signal('SIGKILL'))
      await victim.actor.ended
    })
    await stage.replace(victim)
  },
})

export const inboxKillAck = scenario<WithInbox>({
  ...REPLACED,
  name: 'inbox-kill-ack',
  title: 'SIGKILL the process of an inbox between the COMMIT of a batch and its ack',
  twin: RECEIPTS_NOT_UNIQUE,
  async inject(stage) {
    const victim = stage.victim()
    await stage.fault('killed before its ack', async () => {
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'stored' })
      await victim.actor.ended
    })
    await stage.replace(victim)
  },
})

export const inboxAckLost = scenario<WithInbox>({
  ...RECEIVED,
  name: 'inbox-ack-lost',
  title: "the acks of an inbox, or the broker's answer to them, in turn, are lost with their connection",
  injections: { quick: 1, full: 6 },
  twin: RECEIPTS_NOT_UNIQUE,
  async inject(stage, at) {
    const { way } = stage.environment
    if (at % 2 === 0) {
      await whileStopped(stage, 'stored', () => stage.fault('acks lost', () => way.cut()))
      return
    }
    await stage.fault('answer to acks lost', async () => {
      await whileStopped(stage, 'stored', () => way.freeze())
      await pause(LONGER_THAN_AN_ACK_MS)
      way.cut()
      way.thaw()
    })
  },
})

export const inboxBrokerKill = scenario<WithInbox>({
  ...RECEIVED,
  name: 'inbox-broker-kill',
  title: "SIGKILL an inbox's broker before it has the acks of a batch, and start it again",
  injections: { quick: 1, full: 6 },
  twin: RECEIPTS_NOT_UNIQUE,
  inject: (stage) => killInboxBroker(stage, (act) => whileStopped(stage, 'stored', act)),
})

export const inboxRabbitmqKill = scenario<WithRabbitmq>({
  ...RECEIVED,
  name: 'inbox-rabbitmq-kill',
  title: "SIGKILL an inbox's RabbitMQ server before it has the acks of a batch, and start it again",
  environment: withRabbitmqInbox,
  injections: { quick: 1, full: 4 },
  twin: RECEIPTS_NOT_UNIQUE,
  inject: (stage) => killInboxBroker(stage, (act) => whileStopped(stage, 'stored', act)),
})

export const inboxRedelivery = scenario<WithInbox>({
  ...RECEIVED,
  name: 'inbox-redelivery',
  title: 'the consumer of an inbox is deleted and made again: the broker delivers all that its stream has once more',
  injections: { quick: 1, full: 6 },
  twin: RECEIPTS_NOT_UNIQUE,
  inject: (stage) =>
    stage.fault('all delivered again', async () => {
      const { manager } = stage.environment
      await manager.consumers.delete(STREAM, CONSUMER)
      await addConsumer(manager)
    }),
})

export const inboxRestart = scenario<WithInbox & OwnServer>({
  ...RECEIVED,
  name: 'inbox-restart-immediate',
  title:
    "the database's immediate shutdown (SIGQUIT) while an inbox has a batch to store, and its start, which recovers",
  environment: withInboxAndServer,
  injections: { quick: 1, full: 6 },
  // A transaction id that was given out shortly before a crash may be given out again, so a producer asks for its row.
  load: { ...RECEIVED.load, asks: 'row' },
  twin: ACKS_WHAT_FAILED,
  async inject(stage) {
    const { server } = stage.environment
    await untilUp(stage)
    await stage.fault('restarted', async () => {
      await untilRefused(stage, () => whileStopped(stage, 'received', () => server.stop('immediate')))
      await server.start()
    })
  },
})

/** Stops the worker when it comes to that moment, and lets it go on after the act. */
async function whileStopped(stage: Stage<Environment>, at: Moment, act: () => Promise<void> | void): Promise<void> {
  const { actor } = stage.victim()
  actor.order({ kind: 'signal', signal: 'SIGSTOP', at })
  await until(() => isStopped(actor.pid), `${actor.name} to stand still`, 20_000)
  try {
    await act()
  } finally {
    actor.signal('SIGCONT')
  }
}

/** The statement that stores a batch: with a name or, as long as the session may belong to others, without one. */
function stores(message: WireMessage): boolean {
  if (statementOf(message)?.startsWith('sluice_enqueue_received')) return true
  return message.type === 'P' && message.bytes.includes('sluice_private.receive(')
}

/** An inbox waits five seconds for the answer to its acks. */
const LONGER_THAN_AN_ACK_MS = 6_000
