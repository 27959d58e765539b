import type { SocketOptions } from 'amqplib'
import type { OutgoingMessage } from '../relay/destination.ts'

/** Where a relay publishes in RabbitMQ. */
export interface RabbitmqOptions {
  /**
   * The servers, each with its login and virtual host: `amqp://user:password@host:5672/vhost`, or `amqps://…` with TLS. Name all
   * servers of a cluster: the relay connects to a random one, and to the next one if that does not answer within 2 seconds.
   */
  readonly servers: string | readonly string[]
  /**
   * The name of the exchange. It must exist: this is checked before the first message. `''` is the default exchange, whose routing
   * keys are names of queues.
   */
  readonly exchange: string
  /**
   * The routing key of a message, at most 255 bytes, or a function that makes it. It must give the same key for the same message. A
   * key that is too long, and what the function throws, is the reason of a dead letter.
   *
   * @example ({ message }) => message.type ?? 'other'
   */
  readonly routingKey: string | ((message: OutgoingMessage) => string)
  /** Options of the client's socket, such as `ca`, `cert`, `credentials` or `timeout`. */
  readonly connection?: SocketOptions | undefined
}
