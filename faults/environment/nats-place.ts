import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { NatsServer } from './nats-server.ts'
import { TcpRelay } from './tcp-relay.ts'

/** The stream to which workers relay, and its subject. */
export const STREAM = 'load'

/** A NATS server, and two ways to it. */
export interface NatsPlace {
  readonly broker: NatsServer
  /** The workers' way. */
  readonly way: TcpRelay
  /** One that no fault breaks. */
  readonly connection: NatsConnection
  /** By this connection. */
  readonly manager: JetStreamManager
}

/** A place with streams, each with its name as its subject, and what ends it. Undefined if NATS is not installed. */
export async function startNatsPlace(
  streams: readonly string[],
): Promise<{ readonly place: NatsPlace; readonly url: string; readonly end: () => Promise<void> } | undefined> {
  const broker = await NatsServer.start()
  if (broker === undefined) return undefined
  const connection = await connectBooks([broker.url])
  const manager = await jetstreamManager(connection, { timeout: 1_000 })
  for (const name of streams) await manager.streams.add({ name, subjects: [name] })
  const way = await TcpRelay.start()
  way.pointTo(broker.port)
  const end = async () => {
    await connection.close()
    await way.stop()
    await broker.stop()
  }
  return { place: { broker, way, connection, manager }, url: `nats://127.0.0.1:${way.port}`, end }
}

/** A connection of the harness, which comes back when its server does. */
export function connectBooks(servers: readonly string[]): Promise<NatsConnection> {
  return connect({ servers: [...servers], maxReconnectAttempts: -1, reconnectTimeWait: 50, waitOnFirstConnect: true })
}
