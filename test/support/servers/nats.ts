import {
  AckPolicy,
  type ConsumerConfig,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  type StoredMsg,
} from '@nats-io/jetstream'
import { connect, headers as headersOf, type NatsConnection, nanos } from '@nats-io/transport-node'
import { onTestFinished, type TestContext } from 'vitest'
import { NatsCluster } from '../../../faults/environment/nats-cluster.ts'
import { NatsServer } from '../../../faults/environment/nats-server.ts'
import { ReplicatedStream } from '../../../faults/environment/replicated-stream.ts'
import type { PublishedMessage } from '../../../src/testing/conformance.ts'
import type { MessageToPublish } from '../../../src/testing/receiver-conformance.ts'

/** A NATS server, and a connection beside the relay's that makes and reads streams. It goes with the test. */
export interface TestNats {
  readonly server: NatsServer
  readonly connection: NatsConnection
  readonly manager: JetStreamManager
}

/** Skips the test where NATS is not installed. */
export async function startNats(skip: TestContext['skip'], args: readonly string[] = []): Promise<TestNats> {
  const server = (await NatsServer.start(args)) ?? skip('nats-server is not installed')
  onTestFinished(() => server.stop())
  const connection = await connected([server.url])
  return { server, connection, manager: await jetstreamManager(connection) }
}

/** Three servers with a copy of a stream on each of them. Skips the test where NATS is not installed. */
export async function startNatsCluster(
  skip: TestContext['skip'],
  name: string,
): Promise<{ readonly cluster: NatsCluster; readonly manager: JetStreamManager; readonly stream: ReplicatedStream }> {
  const cluster = (await NatsCluster.start()) ?? skip('nats-server is not installed')
  onTestFinished(() => cluster.stop())
  const manager = await jetstreamManager(await connected(cluster.urls), { timeout: 1_000, checkAPI: false })
  return { cluster, manager, stream: await ReplicatedStream.add((work) => work(manager), name) }
}

async function connected(servers: string[]): Promise<NatsConnection> {
  const terms = { maxReconnectAttempts: -1, reconnectTimeWait: 100, waitOnFirstConnect: true, timeout: 2_000 }
  const connection = await connect({ servers, ...terms })
  onTestFinished(() => connection.close())
  return connection
}

/** Adds a durable pull consumer. What is not acked is free again after a second and a half. */
export async function addConsumer(
  manager: JetStreamManager,
  stream: string,
  name: string,
  more: Partial<ConsumerConfig> = {},
): Promise<void> {
  const terms = { durable_name: name, ack_policy: AckPolicy.Explicit, ack_wait: nanos(1_500) }
  await manager.consumers.add(stream, { ...terms, ...more })
}

/** Publishes messages under their ids, one after another. */
export async function publishTo(
  { connection }: Pick<TestNats, 'connection'>,
  subject: string,
  messages: readonly MessageToPublish[],
): Promise<void> {
  const client = jetstream(connection)
  for (const { id, body, headers } of messages) {
    const made = headersOf()
    for (const [name, value] of Object.entries(headers)) made.set(name, value)
    await client.publish(subject, body, { msgID: id, headers: made })
  }
}

/** All messages of a stream, in its order. Each is asked for: a consumer whose leader changes would wait for ever. */
export async function storedIn(manager: JetStreamManager, stream: string): Promise<readonly PublishedMessage[]> {
  const { state } = await manager.streams.info(stream)
  const stored: PublishedMessage[] = []
  for (let first = Math.max(1, state.first_seq); first <= state.last_seq; first += AT_A_TIME) {
    const last = Math.min(state.last_seq, first + AT_A_TIME - 1)
    const numbers = Array.from({ length: last - first + 1 }, (_, at) => first + at)
    const messages = await Promise.all(numbers.map((seq) => manager.streams.getMessage(stream, { seq })))
    stored.push(...messages.flatMap((message) => (message === null ? [] : [published(message)])))
  }
  return stored
}

function published(message: StoredMsg): PublishedMessage {
  const headers = Object.fromEntries([...message.header].map(([name, [value = '']]) => [name, value]))
  return { id: message.header.get('Nats-Msg-Id'), body: message.string(), headers }
}

const AT_A_TIME = 50
