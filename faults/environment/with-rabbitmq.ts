import { connect } from 'amqplib'
import { connect as connectBooks, type Environment, ownDatabase } from '../run/environment.ts'
import { RabbitmqBooks } from './rabbitmq-books.ts'
import { RabbitmqCluster } from './rabbitmq-cluster.ts'
import { RabbitmqServer } from './rabbitmq-server.ts'
import { untilHandled } from './with-inbox.ts'

/** A database, and a RabbitMQ server to which workers relay. What its queue gets is booked as their effects. */
export interface WithRabbitmq extends Environment {
  readonly broker: RabbitmqServer
}

/** The same with a cluster, and with a copy of the queue on each of its servers. */
export interface WithRabbitmqCluster extends Environment {
  readonly cluster: RabbitmqCluster
}

/** The durable queue, by whose name workers publish. */
export const RABBITMQ_QUEUE = 'load'

const MISSING = { missing: 'rabbitmq-server is not installed' }

export async function withRabbitmq(serverUrl: string): Promise<WithRabbitmq | { readonly missing: string }> {
  const broker = await RabbitmqServer.start()
  if (broker === undefined) return MISSING
  await declareQueue(broker, {})
  return { broker, ...(await bookedFrom(serverUrl, [broker.url], () => broker.stop())) }
}

/** Workers receive from the queue, one after another, what they have published. */
export async function withRabbitmqInbox(serverUrl: string): Promise<WithRabbitmq | { readonly missing: string }> {
  const broker = await RabbitmqServer.start()
  if (broker === undefined) return MISSING
  await declareQueue(broker, { 'x-single-active-consumer': true })
  const database = await ownDatabase(serverUrl)
  const stop = async () => {
    await broker.stop()
    await database.stop()
  }
  const booked = () => untilHandled(database.ledgerUrl, async () => (await readyIn(broker)) === 0)
  return { ...database, broker, outside: { kind: 'broker', servers: [broker.url], inbox: true }, booked, stop }
}

export async function withRabbitmqCluster(
  serverUrl: string,
): Promise<WithRabbitmqCluster | { readonly missing: string }> {
  const cluster = await RabbitmqCluster.start()
  if (cluster === undefined) return MISSING
  const [first] = cluster.servers
  const args = { 'x-queue-type': 'quorum', 'x-quorum-initial-group-size': 3, 'x-single-active-consumer': true }
  if (first !== undefined) await declareQueue(first, args)
  // A server that is killed within seconds of the declaration may forget that it has a copy.
  for (const server of cluster.servers) await server.restart()
  return { cluster, ...(await bookedFrom(serverUrl, cluster.urls, () => cluster.stop())) }
}

async function bookedFrom(
  serverUrl: string,
  servers: readonly string[],
  end: () => Promise<void>,
): Promise<Environment> {
  const database = await ownDatabase(serverUrl)
  const books = new RabbitmqBooks(servers, RABBITMQ_QUEUE, await connectBooks(database.ledgerUrl))
  const stop = async () => {
    await books.stop()
    await end()
    await database.stop()
  }
  return { ...database, outside: { kind: 'broker', servers }, booked: () => books.complete(), stop }
}

async function declareQueue({ url }: RabbitmqServer, args: Readonly<Record<string, unknown>>): Promise<void> {
  const connection = await connect(url)
  await (await connection.createChannel()).assertQueue(RABBITMQ_QUEUE, { arguments: args })
  await connection.close()
}

/** How many messages the queue has that are with no consumer. */
async function readyIn({ url }: RabbitmqServer): Promise<number> {
  const connection = await connect(url)
  try {
    return (await (await connection.createChannel()).checkQueue(RABBITMQ_QUEUE)).messageCount
  } finally {
    await connection.close()
  }
}
