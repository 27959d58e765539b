import { setTimeout as pause } from 'node:timers/promises'
import { type WithBroker, withBroker } from '../environment/with-broker.ts'
import { type WithRabbitmq, withRabbitmq } from '../environment/with-rabbitmq.ts'
import { type Scenario, scenario } from '../run/scenario.ts'
import { ANOTHER_ID_EACH_TIME, OUTAGE_COUNTS, SETTLES_BEFORE_CONFIRM } from '../twins/relay-twins.ts'

/** A relay handles nothing, so nothing fails on purpose. Broken waves, and outages, need several messages of a key. */
export const RELAYED = {
  recoveryMs: 5_000,
  load: { failing: 0, dying: 0, long: 0 },
  environment: withBroker,
  otherwise: { inapplicable: 'a relay has one mode' },
} as const satisfies Partial<Scenario<WithBroker>>

export const relayKill = scenario<WithBroker>({
  ...RELAYED,
  name: 'relay-kill',
  title: 'SIGKILL a relay between the confirms of a batch and its COMMIT',
  injections: { quick: 2, full: 20 },
  costsAttempts: true,
  stream: {
    title: 'SIGKILL a process with a relay for each of two groups between the confirms of a batch and its COMMIT',
  },
  twin: ANOTHER_ID_EACH_TIME,
  async inject(stage) {
    const victim = stage.victim()
    await stage.fault('killed before its COMMIT', async () => {
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'effects' })
      await victim.actor.ended
    })
    await stage.replace(victim)
  },
})

export const relayLostConfirms = scenario<WithBroker>({
  ...RELAYED,
  name: 'relay-lost-confirms',
  title: "the confirms of a relay's broker do not come for longer than it waits, and are lost",
  injections: { quick: 1, full: 10 },
  twin: ANOTHER_ID_EACH_TIME,
  async inject(stage) {
    const { way } = stage.environment
    await stage.fault('confirms lost', async () => {
      way.freeze()
      await pause(LONGER_THAN_A_CONFIRM_MS)
      way.cut()
      way.thaw()
    })
  },
})

export const relayBrokerKill = scenario<WithBroker>({
  ...RELAYED,
  name: 'relay-broker-kill',
  title: "SIGKILL a relay's broker, and start it again",
  injections: { quick: 2, full: 20 },
  twin: SETTLES_BEFORE_CONFIRM,
  inject: (stage) =>
    stage.fault('broker killed', async () => {
      const { broker } = stage.environment
      await broker.kill()
      await pause(SOON_MS)
      await broker.run()
    }),
})

export const relayRabbitmqKill = scenario<WithRabbitmq>({
  ...RELAYED,
  name: 'relay-rabbitmq-kill',
  title: 'SIGKILL the RabbitMQ server of a relay, which drops no copies, and start it again',
  environment: withRabbitmq,
  injections: { quick: 1, full: 6 },
  // It takes seconds to start, and its queues seconds more.
  recoveryMs: 10_000,
  twin: SETTLES_BEFORE_CONFIRM,
  inject: (stage) =>
    stage.fault('RabbitMQ killed', async () => {
      const { broker } = stage.environment
      await broker.kill()
      await broker.run()
    }),
})

/** One attempt is all that a message has. */
export const ONE_ATTEMPT = { pipeline: { maxAttempts: 1 } }

export const relayOutage = scenario<WithBroker>({
  ...RELAYED,
  name: 'relay-outage',
  title:
    "a relay's broker is out of reach for two seconds, or once for a minute, while its queue fills; no message may fail once",
  injections: { quick: 1, full: 4 },
  workers: ONE_ATTEMPT,
  stream: {
    title:
      'the broker of relays for two groups is out of reach for two seconds, or once for a minute, while their stream grows; no event may fail once',
  },
  twin: OUTAGE_COUNTS,
  // The longest time without a try, and a backlog.
  recoveryMs: 10_000,
  async inject(stage, at) {
    const { way, broker } = stage.environment
    await stage.fault('broker out of reach', async () => {
      way.pointTo(undefined)
      way.cut()
      await pause(at === MINUTE_AT ? 60_000 : 2_000)
      way.pointTo(broker.port)
    })
  },
})

const LONGER_THAN_A_CONFIRM_MS = 2_500
const SOON_MS = 300
/** Which of the injections of a full run takes longer. */
const MINUTE_AT = 3
