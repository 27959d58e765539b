import { noteKind } from '../basics/adapter-kinds.ts'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { expected } from '../errors.ts'
import type { Destination } from '../relay/destination.ts'
import { RabbitmqDestination } from './rabbitmq-destination.ts'
import type { RabbitmqOptions } from './rabbitmq-options.ts'
import { wrongRoutingKey } from './routing-key.ts'
import { serversOf } from './servers.ts'

/**
 * Publishes to an exchange of RabbitMQ, which confirms a message when all queues that it was routed to have stored it. A message
 * that was routed to no queue is a failed attempt. The id is the property `message_id`; RabbitMQ itself drops no duplicates.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example sluice.relay('orders', { to: rabbitmq({ servers: 'amqp://localhost', exchange: 'shop', routingKey: 'orders' }) }).start()
 */
export function rabbitmq(options: RabbitmqOptions): Destination {
  checkKeys('rabbitmq', options, ['servers', 'exchange', 'routingKey', 'connection'], REMEDY)
  const { servers, exchange, routingKey } = options
  if (typeof exchange !== 'string' || Buffer.byteLength(exchange) > LONGEST_NAME)
    throw expected('OPTION_INVALID', 'rabbitmq.exchange', 'the name of an exchange', exchange, REMEDY)
  const wrong = typeof routingKey === 'function' ? undefined : wrongRoutingKey(routingKey)
  if (wrong !== undefined) throw expected('OPTION_INVALID', 'rabbitmq.routingKey', wrong, routingKey, REMEDY)
  return noteKind('destination', new RabbitmqDestination(options, serversOf('rabbitmq.servers', servers, REMEDY)))
}

const REMEDY = "As in rabbitmq({ servers: 'amqp://localhost', exchange: 'shop', routingKey: 'orders' })"
/** In bytes. */
const LONGEST_NAME = 255
