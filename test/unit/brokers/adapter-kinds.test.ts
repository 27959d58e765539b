import { expect, test } from 'vitest'
import { resolveInbox } from '../../../src/inbox/options.ts'
import { fromKafka } from '../../../src/kafka/from-kafka.ts'
import { kafka } from '../../../src/kafka/kafka.ts'
import { fromNats } from '../../../src/nats/from-nats.ts'
import { nats } from '../../../src/nats/nats.ts'
import { fromRabbitmq } from '../../../src/rabbitmq/from-rabbitmq.ts'
import { rabbitmq } from '../../../src/rabbitmq/rabbitmq.ts'
import { fromRedis } from '../../../src/redis/from-redis.ts'
import { redis } from '../../../src/redis/redis.ts'
import { resolveRelay } from '../../../src/relay/options.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'

const destinations = {
  kafka: kafka({ servers: 'a:9092', topic: 'orders' }),
  nats: nats({ servers: 'nats://a', subject: 'orders' }),
  rabbitmq: rabbitmq({ servers: 'amqp://a', exchange: 'shop', routingKey: 'orders' }),
  redis: redis({ url: 'redis://a', stream: 'orders' }),
  memory: new MemoryDestination(),
}
const receivers = {
  kafka: fromKafka({ servers: 'a:9092', topic: 'orders', group: 'billing' }),
  nats: fromNats({ servers: 'nats://a', stream: 'shop', consumer: 'billing' }),
  rabbitmq: fromRabbitmq({ servers: 'amqp://a', queue: 'billing' }),
  redis: fromRedis({ url: 'redis://a', stream: 'orders', group: 'billing', consumer: 'a' }),
  memory: new MemoryReceiver(),
}
const SYSTEMS = ['kafka', 'nats', 'rabbitmq', 'redis', 'memory'] as const

test.for(SYSTEMS)('an inbox refuses a destination of %s, and takes a receiver', (system) => {
  expect(() => resolveInbox('orders', { from: destinations[system] as never })).toThrow(
    'inbox("orders").from: expected a receiver, received a destination. As in inbox(\'orders-in\', { from: fromNats(',
  )
  expect(resolveInbox('orders', { from: receivers[system] }).from).toBe(receivers[system])
})

test.for(SYSTEMS)('a relay refuses a receiver of %s, and takes a destination', (system) => {
  expect(() => resolveRelay('orders', { to: receivers[system] as never })).toThrow(
    'relay("orders").to: expected a destination, received a receiver. As in { to: nats(',
  )
  expect(resolveRelay('orders', { to: destinations[system] }).to).toBe(destinations[system])
})

test.for([
  () => nats({ servers: ['nats://a', 'nats://me:secret@b'], subject: 'orders' }),
  () => fromNats({ servers: 'me:secret@b', stream: 'shop', consumer: 'billing' }),
])('an address of NATS with a login is refused, because the client would drop the login', (make) => {
  expect(make).toThrow(/servers: expected addresses without a login, .* Give it as connection: \{ user, pass \}/)
  expect(make).not.toThrow(/secret/)
})
