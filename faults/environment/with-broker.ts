import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { connect as connectBooks, type Environment, ownDatabase } from '../run/environment.ts'
import { BrokerBooks } from './broker-books.ts'
import { NatsServer } from './nats-server.ts'
import { TcpRelay } from './tcp-relay.ts'

/** A database, and a NATS server to which workers relay. What its stream has is booked as their effects. */
export interface WithBroker extends Environment {
  readonly broker: NatsServer
  /** The workers' way to it. */
  readonly way: TcpRelay
  readonly manager: JetStreamManager
}

/** The stream, and its subject. */
export const STREAM = 'load'

export async function withBroker(serverUrl: string): Promise<WithBroker | { readonly missing: string }> {
  const broker = await NatsServer.start()
  if (broker === undefined) return { missing: 'nats-server is not installed' }
  const connection = await connect({ servers: broker.url, maxReconnectAttempts: -1, reconnectTimeWait: 50 })
  const manager = await jetstreamManager(connection, { timeout: 1_000 })
  await manager.streams.add({ name: STREAM, subjects: [STREAM] })
  const way = await TcpRelay.start()
  way.pointTo(broker.port)
  const database = await ownDatabase(serverUrl)
  const books = new BrokerBooks(manager, STREAM, await connectBooks(database.ledgerUrl))
  const stop = async () => {
    await books.stop()
    await connection.close()
    await way.stop()
    await broker.stop()
    await database.stop()
  }
  return {
    ...database,
    brokerUrl: `nats://127.0.0.1:${way.port}`,
    broker,
    way,
    manager,
    booked: () => books.complete(),
    stop,
  }
}
