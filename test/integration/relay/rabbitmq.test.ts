import { describe, expect, onTestFinished, vi } from 'vitest'
import type { RabbitmqServer } from '../../../faults/environment/rabbitmq-server.ts'
import { TcpRelay } from '../../../faults/environment/tcp-relay.ts'
import { freePort } from '../../../server/free-port.ts'
import { connectToAny } from '../../../src/rabbitmq/connect-to-any.ts'
import { rabbitmq } from '../../../src/rabbitmq/rabbitmq.ts'
import type { OutgoingMessage } from '../../../src/relay/destination.ts'
import { type ConformanceSubject, conformance, type PublishedMessage } from '../../../src/testing/conformance.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { MOST_BYTES, onChannel, published, takenFrom, test } from '../../support/servers/rabbitmq.ts'
import { put } from '../../support/sluice.ts'

describe('as each destination must', () => {
  for (const { name, run } of conformance) test(name, async ({ broker, queue }) => run(await inRabbitmq(broker, queue)))
})

async function inRabbitmq(broker: RabbitmqServer, name: string): Promise<ConformanceSubject> {
  await onChannel(broker, async (channel) => {
    await channel.assertExchange(name, 'topic')
    await channel.assertQueue(name)
    await channel.bindQueue(name, name, 'order.*')
  })
  const way = await TcpRelay.start()
  onTestFinished(() => way.stop())
  way.pointTo(broker.port)
  const servers = `amqp://127.0.0.1:${way.port}`
  const stored: PublishedMessage[] = []
  return {
    to: rabbitmq({ servers, exchange: name, routingKey: ({ message }) => message.type ?? 'none' }),
    stored: async () => {
      stored.push(...(await takenFrom(broker, name)).map(published))
      return stored
    },
    cutOff: async () => {
      way.pointTo(undefined)
      way.cut()
      return async () => way.pointTo(broker.port)
    },
    spoil: (message) => ({ ...message, message: { ...message.message, type: 'unrouted' } }),
  }
}

const LATER = { kind: 'fixed', delay: '1h' } as const

const deadIn = async (database: TestDatabase, queue: string) => {
  const text = 'SELECT payload, reason FROM sluice.dead_letters WHERE queue = $1 ORDER BY id'
  const rows = await database.sql<{ payload: unknown; reason: string }>(text, [queue])
  return rows.map(({ payload, reason }) => [payload, reason])
}

test('a relay publishes by type, and a consumer gets payload, headers and trace as they were enqueued', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  await onChannel(broker, async (channel) => {
    await channel.assertExchange(queue, 'topic')
    await channel.assertQueue(queue)
    await channel.bindQueue(queue, queue, 'order.*')
  })
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  const headers = { traceparent, tracestate: 'a=b', name: 'é' }
  const [id] = await put(sluice, queue, [{ id: 7 }], { type: 'order.placed', headers })
  const [row] = await database.sql<{ at: Date }>('SELECT enqueued_at AS at FROM sluice.message WHERE queue = $1', [
    queue,
  ])
  const routingKey = vi.fn(({ message }: OutgoingMessage) => message.type ?? 'none')
  const to = rabbitmq({ servers: broker.url, exchange: queue, routingKey })
  expect((await sluice.relay(queue, { to }).runOnce()).counts.acked).toBe(1)
  expect(routingKey).toHaveBeenCalledTimes(1)
  const [taken] = await takenFrom(broker, queue)
  const [source] = await database.sql<{ id: string }>('SELECT id FROM sluice.source')
  expect(taken?.fields.routingKey).toBe('order.placed')
  expect(JSON.parse(taken?.content.toString() ?? '')).toEqual({ id: 7 })
  expect(taken?.properties).toMatchObject({
    messageId: `${source?.id}/${id}`,
    type: 'order.placed',
    contentType: 'application/json',
    deliveryMode: 2,
    timestamp: Math.floor(Number(row?.at) / 1_000),
    headers: { ...headers, 'sluice-type': 'order.placed', 'sluice-message-id': id },
  })
})

test('a message for which no queue is bound is a failed attempt, and is published when one is bound', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  await onChannel(broker, async (channel) => {
    await channel.assertExchange(queue, 'direct')
    await channel.assertQueue(queue)
    await channel.bindQueue(queue, queue, 'bound')
  })
  await put(sluice, queue, ['bound', 'free'])
  const routingKey = ({ message }: { message: { payload: unknown } }) => String(message.payload)
  const to = rabbitmq({ servers: broker.url, exchange: queue, routingKey })
  expect((await sluice.relay(queue, { to, retry: LATER }).runOnce()).counts).toMatchObject({ acked: 1, retried: 1 })
  const reason = `no queue is bound to exchange "${queue}" for routing key "free". Bind one, or correct routingKey`
  expect(await database.sql('SELECT attempt, last_error FROM sluice.message WHERE queue = $1', [queue])).toEqual([
    { attempt: 1, last_error: reason },
  ])
  await onChannel(broker, (channel) => channel.bindQueue(queue, queue, 'free'))
  await database.sql('UPDATE sluice.message SET due_at = now() WHERE queue = $1', [queue])
  expect((await sluice.relay(queue, { to }).runOnce()).counts.acked).toBe(1)
  expect((await takenFrom(broker, queue)).map(({ fields }) => fields.routingKey)).toEqual(['bound', 'free'])
})

test('a message that RabbitMQ cannot carry is dead before it is sent, and the others go', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  await onChannel(broker, (channel) => channel.assertQueue(queue))
  await put(sluice, queue, ['long'], { type: 'x'.repeat(255) })
  // The server would route by these, and closes the channel if they are text.
  await put(sluice, queue, ['routed'], { headers: { CC: 'other' } })
  await put(sluice, queue, ['named'], { headers: { ['n'.repeat(256)]: 'x' } })
  await put(sluice, queue, ['heavy'], { headers: { a: 'x'.repeat(65_500) } })
  await put(sluice, queue, ['well'], { headers: { cc: 'other', a: 'x'.repeat(65_000) } })
  const to = rabbitmq({
    servers: broker.url,
    exchange: '',
    routingKey: ({ message }) => `${message.type ?? ''}${queue}`,
  })
  expect((await sluice.relay(queue, { to }).runOnce()).counts).toMatchObject({ acked: 1, dead: 4 })
  expect(await deadIn(database, queue)).toEqual([
    [
      'long',
      expect.stringContaining('rabbitmq.routingKey: expected a routing key of at most 255 bytes, received "xxx'),
    ],
    ['routed', 'header "CC": expected another name, because RabbitMQ routes by this one'],
    ['named', expect.stringContaining('expected a name of at most 255 bytes')],
    ['heavy', expect.stringContaining('headers: expected at most 65536 bytes in all, received 65')],
  ])
  expect(await takenFrom(broker, queue)).toMatchObject([{ properties: { headers: { cc: 'other' } } }])
})

test('a message larger than the server takes is dead once the server has told its limit, and the others go', async ({
  database,
  sluice,
  queue,
  broker,
  log,
}) => {
  await onChannel(broker, (channel) => channel.assertQueue(queue))
  const large = 'y'.repeat(MOST_BYTES)
  await put(sluice, queue, ['a', large, 'b'])
  const to = rabbitmq({ servers: broker.url, exchange: '', routingKey: queue })
  const running = sluice.relay(queue, { to, breaker: { delay: '10ms', maxDelay: '50ms' } }).start()
  await untilEmpty(database, queue)
  await running.drain()
  expect(log.of('relay.unavailable')[0]?.error).toContain(`larger than configured max size ${MOST_BYTES}`)
  const reason = `expected at most ${MOST_BYTES} bytes, the server's max_message_size, received ${MOST_BYTES + 2}`
  expect(await deadIn(database, queue)).toEqual([[large, reason]])
  const bodies = (await takenFrom(broker, queue)).map(({ content }) => content.toString())
  expect(new Set(bodies)).toEqual(new Set(['"a"', '"b"']))
})

test('a queue that all messages go to and that is missing is a setting, and counts no attempt', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await put(sluice, queue, [1])
  const to = rabbitmq({ servers: broker.url, exchange: '', routingKey: queue })
  const running = sluice.relay(queue, { to, breaker: { delay: '10ms', maxDelay: '50ms' } }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({
    cause: 'settings',
    error: `no queue "${queue}". Declare it, or correct routingKey`,
  })
  expect(await database.sql('SELECT attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([{ attempt: 0 }])
  await onChannel(broker, (channel) => channel.assertQueue(queue))
  await untilEmpty(database, queue)
  await running.drain()
})

test('a connection is made to any server that answers, and if none does, each is named without its login', async ({
  broker,
}) => {
  const [dead, life] = [await freePort(), new AbortController()]
  const servers = [`amqp://user:secret@127.0.0.1:${dead}`, broker.url]
  for (const random of [0, 0.9]) {
    const { connection } = await connectToAny(servers, {}, life.signal, () => random)
    await connection.close()
  }
  const refused = connectToAny([servers[0] ?? '', 'amqp://127.0.0.1:1'], {}, life.signal, () => 0)
  await expect(refused).rejects.toThrow(
    new RegExp(`^127.0.0.1:${dead}: connect ECONNREFUSED .*; 127.0.0.1:1: connect ECONNREFUSED`),
  )
})
