import { type JetStreamManager, jetstreamManager, type StoredMsg } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { onTestFinished, type TestContext } from 'vitest'
import { NatsCluster } from '../../../faults/environment/nats-cluster.ts'
import { NatsServer } from '../../../faults/environment/nats-server.ts'
import type { PublishedMessage } from '../../../src/testing/conformance.ts'
import { waitFor } from '../wait.ts'

/** A NATS server, and a connection beside the relay's that makes and reads streams. It goes with the test. */
export interface TestNats {
  readonly server: NatsServer
  readonly manager: JetStreamManager
}

/** Skips the test where NATS is not installed. */
export async function startNats(skip: TestContext['skip']): Promise<TestNats> {
  const server = (await NatsServer.start()) ?? skip('nats-server is not installed')
  onTestFinished(() => server.stop())
  const connection = await connected([server.url])
  return { server, manager: await jetstreamManager(connection) }
}

/** Three servers with a stream on each of them. Skips the test where NATS is not installed. */
export async function startNatsCluster(
  skip: TestContext['skip'],
  stream: string,
): Promise<{ readonly cluster: NatsCluster; readonly manager: JetStreamManager }> {
  const cluster = (await NatsCluster.start()) ?? skip('nats-server is not installed')
  onTestFinished(() => cluster.stop())
  const manager = await jetstreamManager(await connected(cluster.urls), { timeout: 1_000, checkAPI: false })
  const added = () => manager.streams.add({ name: stream, subjects: [stream], num_replicas: 3 })
  // Until the three have chosen a leader there is no answer, or there are too few peers.
  await waitFor(() => added().then(isMade, () => false), { what: 'a cluster with a leader', timeoutMs: 60_000 })
  return { cluster, manager }
}

const isMade = () => true

async function connected(servers: string[]): Promise<NatsConnection> {
  const terms = { maxReconnectAttempts: -1, reconnectTimeWait: 100, waitOnFirstConnect: true, timeout: 2_000 }
  const connection = await connect({ servers, ...terms })
  onTestFinished(() => connection.close())
  return connection
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
