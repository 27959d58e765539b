import type { OutgoingMessage } from '../relay/destination.ts'
import type { RabbitmqOptions } from './rabbitmq-options.ts'

/** What the options say, which may be anything but a routing key if it comes from a function. */
export function routingKeyOf(outgoing: OutgoingMessage, { routingKey }: RabbitmqOptions): string {
  return typeof routingKey === 'string' ? routingKey : routingKey(outgoing)
}

/** What is expected instead of a routing key that cannot be sent; undefined: it can be. */
export function wrongRoutingKey(key: unknown): string | undefined {
  if (typeof key !== 'string') return 'a routing key'
  return Buffer.byteLength(key) > MOST_BYTES ? `a routing key of at most ${MOST_BYTES} bytes` : undefined
}

/** Its length is one byte of the frame. */
const MOST_BYTES = 255
