import type { ChannelModel } from 'amqplib'
import type { Destination, DestinationConnection } from '../relay/destination.ts'
import type { RabbitmqOptions } from './rabbitmq-options.ts'
import { RabbitmqPublisher } from './rabbitmq-publisher.ts'
import { openSession, type Session } from './session.ts'
import { SizeLimit } from './size-limit.ts'

/** An exchange, and what its connections have learned of its server. */
export class RabbitmqDestination implements Destination {
  readonly system = 'rabbitmq'
  /** A publisher sends the next message of a key when the one before it is confirmed. */
  readonly keepsOrder = true
  readonly #options: RabbitmqOptions
  readonly #servers: readonly string[]
  readonly #limit = new SizeLimit()

  constructor(options: RabbitmqOptions, servers: readonly string[]) {
    this.#options = options
    this.#servers = servers
  }

  open(signal: AbortSignal): Promise<DestinationConnection> {
    return openSession(this.#servers, this.#options.connection, signal, (session) => this.#publisherOf(session))
  }

  async #publisherOf(session: Session): Promise<DestinationConnection> {
    await checkExchange(session.connection, this.#options.exchange)
    const channel = await session.connection.createConfirmChannel()
    return new RabbitmqPublisher(session, channel, this.#options, this.#limit)
  }
}

/** @throws if it is missing: the server says so, and closes the channel */
async function checkExchange(connection: ChannelModel, exchange: string): Promise<void> {
  // The default exchange always exists, and the server does not let anyone ask for it.
  if (exchange === '') return
  const channel = await connection.createChannel()
  channel.on('error', () => undefined)
  await channel.checkExchange(exchange)
  await channel.close()
}
