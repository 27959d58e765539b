import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { deliveryOf, GROUPS } from '../ledger.ts'
import { connect as connectBooks, type Environment, ownDatabase } from '../run/environment.ts'
import { BrokerBooks } from './broker-books.ts'
import { NatsServer } from './nats-server.ts'
import { TcpRelay } from './tcp-relay.ts'

/** A database, and a NATS server to which workers relay. What its streams have is booked as their effects. */
export interface WithBroker extends Environment {
  readonly broker: NatsServer
  /** The workers' way to it. */
  readonly way: TcpRelay
  readonly manager: JetStreamManager
}

/** The stream, and its subject. */
export const STREAM = 'load'

/** The same for what a group publishes: in one stream the second group's events would be dropped as duplicates. */
export function streamFor(group: string): string {
  return `${STREAM}-${group}`
}

export async function withBroker(serverUrl: string): Promise<WithBroker | { readonly missing: string }> {
  const broker = await NatsServer.start()
  if (broker === undefined) return { missing: 'nats-server is not installed' }
  const connection = await connect({ servers: broker.url, maxReconnectAttempts: -1, reconnectTimeWait: 50 })
  const manager = await jetstreamManager(connection, { timeout: 1_000 })
  const names = [STREAM, ...GROUPS.map(streamFor)]
  for (const name of names) await manager.streams.add({ name, subjects: [name] })
  const way = await TcpRelay.start()
  way.pointTo(broker.port)
  const database = await ownDatabase(serverUrl)
  const client = await connectBooks(database.ledgerUrl)
  const books = [
    new BrokerBooks(manager, STREAM, client, (id) => id),
    ...GROUPS.map(
      (group) => new BrokerBooks(manager, streamFor(group), client, (id) => deliveryOf(positionIn(id), group)),
    ),
  ]
  const stop = async () => {
    for (const one of books) await one.stop()
    await client.end()
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
    booked: async () => void (await Promise.all(books.map((one) => one.complete()))),
    stop,
  }
}

/** Of an event, whose id is `<stream>/<position>`. */
function positionIn(id: string): number {
  return Number(id.split('/').at(-1))
}
