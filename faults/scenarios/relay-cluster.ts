import { CLUSTER_FAULTS } from '../environment/cluster-faults.ts'
import { type WithNatsCluster, withNatsCluster } from '../environment/with-nats-cluster.ts'
import { type WithRabbitmqCluster, withRabbitmqCluster } from '../environment/with-rabbitmq.ts'
import type { Environment } from '../run/environment.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { SETTLES_BEFORE_CONFIRM } from '../twins/relay-twins.ts'
import { RELAYED } from './relay.ts'

/** A batch has a message of each key twice. */
const LARGE_BATCHES = { pipeline: { batchSize: 100, timeout: '10s' } } as const

export const relayCluster = scenario<WithNatsCluster>({
  ...RELAYED,
  name: 'relay-cluster',
  title:
    "the server that leads the stream of a relay's cluster is killed, stopped or cut off, in turn, amid 50,000 messages of 50 keys",
  environment: withNatsCluster,
  injections: { quick: 1, full: 3 },
  workers: LARGE_BATCHES,
  // The backlog has to be published, through one election of a leader.
  recoveryMs: 120_000,
  twin: SETTLES_BEFORE_CONFIRM,
  async inject(stage, at) {
    const { cluster, stream } = stage.environment
    const { name, strike } = CLUSTER_FAULTS[at % CLUSTER_FAULTS.length] ?? CLUSTER_FAULTS[0]
    await amid(stage, { messages: 50_000, name: `cluster.${at}` })
    const leader = await stream.leader()
    const undo = await stage.fault(`a leader ${name}`, () => strike(cluster, leader))
    await goesOn(stage)
    await undo()
    // Without a majority it would stand still.
    await stream.whole()
  },
})

export const relayRabbitmqCluster = scenario<WithRabbitmqCluster>({
  ...RELAYED,
  name: 'relay-rabbitmq-cluster',
  title:
    "SIGKILL each server of a relay's RabbitMQ cluster in turn, with a quorum queue, amid 5,000 messages of 50 keys, and start it again",
  environment: withRabbitmqCluster,
  injections: { quick: 1, full: 3 },
  workers: LARGE_BATCHES,
  recoveryMs: 120_000,
  twin: SETTLES_BEFORE_CONFIRM,
  async inject(stage, at) {
    const { servers } = stage.environment.cluster
    const server = servers[at % servers.length]
    await amid(stage, { messages: 5_000, name: `rabbitmq.${at}` })
    await stage.fault('a server killed', () => server?.kill())
    await goesOn(stage)
    await server?.run()
  },
})

/** Enqueues messages of 50 keys, and resolves when a part of them is published. */
async function amid(
  stage: Stage<Environment>,
  { messages, name }: { readonly messages: number; readonly name: string },
): Promise<void> {
  for (let key = 0; key < KEYS; key += 1) {
    const ofKey = Array.from({ length: messages / KEYS }, () => ({ fate: 'ack', failures: 0 }) as const)
    await stage.enqueueAll(ofKey, `${name}.${key}`)
  }
  const left = async () => {
    const [row] = await stage.sql('SELECT count(*)::integer AS left FROM sluice.message WHERE queue = $1', [
      stage.queue,
    ])
    return Number(row?.left)
  }
  await until(async () => (await left()) < messages * HALF, 'a part to be published', PART_MS, COUNT_EVERY_MS)
}

/** While the server is away, the others take the messages. */
async function goesOn(stage: Stage<Environment>): Promise<void> {
  await stage.flows(MEANWHILE, GOES_ON_MS)
}

const KEYS = 50
const HALF = 0.5
const PART_MS = 120_000
const COUNT_EVERY_MS = 200
const MEANWHILE = 1_000
/** An election takes up to 10 seconds. */
const GOES_ON_MS = 20_000
