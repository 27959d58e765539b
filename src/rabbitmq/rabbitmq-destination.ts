import type { ChannelModel } from 'amqplib'
import type { Destination, DestinationConnection } from '../relay/destination.ts'
import { connectToAny } from './connect-to-any.ts'
import type { RabbitmqOptions } from './rabbitmq-options.ts'
import { RabbitmqPublisher } from './rabbitmq-publisher.ts'
import { SizeLimit } from './size-limit.ts'

/** An exchange, and what its connections have learned of its server. */
export class RabbitmqDestination implements Destination {
  readonly system = 'rabbitmq'
  readonly #options: RabbitmqOptions
  readonly #servers: readonly string[]
  readonly #limit = new SizeLimit()

  constructor(options: RabbitmqOptions, servers: readonly string[]) {
    this.#options = options
    this.#servers = servers
  }

  async open(signal: AbortSignal): Promise<DestinationConnection> {
    const life = new AbortController()
    const abort = () => life.abort()
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
    try {
      const connection = await connectToAny(this.#servers, this.#options.connection ?? {}, life.signal)
      await checkExchange(connection, this.#options.exchange)
      const channel = await connection.createConfirmChannel()
      return new RabbitmqPublisher(connection, channel, this.#options, this.#limit, life)
    } catch (error) {
      abort()
      throw error
    } finally {
      signal.removeEventListener('abort', abort)
    }
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
