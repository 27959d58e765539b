import { connect } from 'amqplib'
import { connect as connectBooks, type Environment, ownDatabase } from '../run/environment.ts'
import { RabbitmqBooks } from './rabbitmq-books.ts'
import { RabbitmqServer } from './rabbitmq-server.ts'

/** A database, and a RabbitMQ server to which workers relay. What its queue gets is booked as their effects. */
export interface WithRabbitmq extends Environment {
  readonly broker: RabbitmqServer
}

/** The durable queue of the server, by whose name workers publish. */
export const RABBITMQ_QUEUE = 'load'

export async function withRabbitmq(serverUrl: string): Promise<WithRabbitmq | { readonly missing: string }> {
  const broker = await RabbitmqServer.start()
  if (broker === undefined) return { missing: 'rabbitmq-server is not installed' }
  const connection = await connect(broker.url)
  await (await connection.createChannel()).assertQueue(RABBITMQ_QUEUE)
  await connection.close()
  const database = await ownDatabase(serverUrl)
  const books = new RabbitmqBooks(broker.url, RABBITMQ_QUEUE, await connectBooks(database.ledgerUrl))
  const stop = async () => {
    await books.stop()
    await broker.stop()
    await database.stop()
  }
  return { ...database, brokerUrl: broker.url, broker, booked: () => books.complete(), stop }
}
