import { describe, expect, onTestFinished } from 'vitest'
import type { RabbitmqServer } from '../../../faults/environment/rabbitmq-server.ts'
import { TcpRelay } from '../../../faults/environment/tcp-relay.ts'
import { freePort } from '../../../server/free-port.ts'
import type { ReceiverConnection } from '../../../src/inbox/receiver.ts'
import { fromRabbitmq } from '../../../src/rabbitmq/from-rabbitmq.ts'
import { rabbitmq } from '../../../src/rabbitmq/rabbitmq.ts'
import { type ReceiverSubject, receiverConformance } from '../../../src/testing/receiver-conformance.ts'
import { expectToOutliveAKill, letter, numbers, QUICK, soon, take } from '../../support/inboxes.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { onChannel, sendTo, test } from '../../support/servers/rabbitmq.ts'
import { put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('as each receiver must', () => {
  for (const { name, run } of receiverConformance)
    test(name, async ({ broker, queue }) => run(await inRabbitmq(broker, queue)))
})

async function inRabbitmq(broker: RabbitmqServer, queue: string): Promise<ReceiverSubject> {
  await sendTo(broker, queue, [])
  const way = await TcpRelay.start()
  onTestFinished(() => way.stop())
  way.pointTo(broker.port)
  return {
    from: fromRabbitmq({ servers: `amqp://127.0.0.1:${way.port}`, queue }),
    publish: (messages) => sendTo(broker, queue, messages),
    cutOff: async () => {
      way.pointTo(undefined)
      way.cut()
      return async () => way.pointTo(broker.port)
    },
  }
}

async function opened(broker: RabbitmqServer, queue: string): Promise<ReceiverConnection> {
  const connection = await fromRabbitmq({ servers: broker.url, queue }).open(soon())
  onTestFinished(() => connection.close())
  return connection
}

/** How many messages the server has, and has not sent to a consumer. */
async function readyIn(broker: RabbitmqServer, queue: string): Promise<number> {
  const { messageCount } = await onChannel(broker, (channel) => channel.checkQueue(queue))
  return messageCount
}

test('an inbox enqueues what a relay has published, with type, key and headers, and nothing of the broker’s', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  await sendTo(broker, queue, [])
  const options = { type: 'order.placed', orderingKey: 'grüße', headers: { tracestate: 'a=b' } }
  await put(sluice, queue, [{ id: 7, name: 'é' }], options)
  await sluice.relay(queue, { to: rabbitmq({ servers: broker.url, exchange: '', routingKey: queue }) }).runOnce()
  const inbox = sluice.inbox(`${queue}.in`, { from: fromRabbitmq({ servers: broker.url, queue }) })
  expect(await inbox.runOnce({ wait: '500ms' })).toEqual({ enqueued: 1, duplicates: 0, dead: 0 })
  const stored = 'SELECT payload, type, ordering_key, headers FROM sluice.message WHERE queue = $1'
  expect(await database.sql(stored, [`${queue}.in`])).toEqual([
    { payload: { id: 7, name: 'é' }, type: 'order.placed', ordering_key: 'grüße', headers: { tracestate: 'a=b' } },
  ])
  expect(await inbox.runOnce({ wait: '200ms' })).toEqual({ enqueued: 0, duplicates: 0, dead: 0 })
  expect(await readyIn(broker, queue)).toBe(0)
})

test('of other messages it takes the id and the type from the properties, and headers that are not text as JSON', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  await onChannel(broker, async (channel) => {
    await channel.assertQueue(queue)
    const headers = { name: 'é', count: 7, urgent: true, tags: ['a', 'b'], of: { at: 1 }, CC: [], 'x-delay': 10 }
    channel.sendToQueue(queue, Buffer.from('1'), { messageId: 'm-1', type: 'order.placed', headers })
    channel.sendToQueue(queue, Buffer.from('1'), { messageId: 'm-1' })
    channel.sendToQueue(queue, Buffer.from('2'), { messageId: '', type: '' })
  })
  const inbox = sluice.inbox(queue, { from: fromRabbitmq({ servers: broker.url, queue }) })
  expect(await inbox.runOnce({ wait: '500ms' })).toEqual({ enqueued: 1, duplicates: 1, dead: 1 })
  const headers = { name: 'é', count: '7', urgent: 'true', tags: '["a","b"]', of: '{"at":1}' }
  expect(await database.sql('SELECT payload, type, headers FROM sluice.message WHERE queue = $1', [queue])).toEqual([
    { payload: 1, type: 'order.placed', headers },
  ])
  expect(await database.sql('SELECT payload, type FROM sluice.dead_letters WHERE queue = $1', [queue])).toEqual([
    { payload: 2, type: null },
  ])
})

test('it has no more messages than a batch takes, and the next when these are acked', async ({ queue, broker }) => {
  await sendTo(broker, queue, numbers(50).map(letter))
  const connection = await opened(broker, queue)
  const received = await take(connection, 10)
  expect(await readyIn(broker, queue)).toBe(40)
  await connection.ack(received)
  await waitFor(async () => (await readyIn(broker, queue)) === 30, { what: 'the next ten' })
})

test('an ack of later messages leaves earlier ones', async ({ queue, broker }) => {
  await sendTo(broker, queue, numbers(4).map(letter))
  const connection = await opened(broker, queue)
  const received = await take(connection, 4)
  await connection.ack(received.slice(2))
  await connection.close()
  const again = await take(await opened(broker, queue), 2)
  expect(again.map(({ id }) => id)).toEqual(['m-0', 'm-1'])
})

test('with a single active consumer the second process has nothing until the first is gone, and then all in order', async ({
  queue,
  broker,
}) => {
  await onChannel(broker, async (channel) => {
    await channel.assertQueue(queue, { arguments: { 'x-single-active-consumer': true } })
    for (const n of numbers(3)) channel.sendToQueue(queue, Buffer.from('1'), { messageId: `m-${n}` })
  })
  const first = await opened(broker, queue)
  expect((await take(first, 1)).map(({ id }) => id)).toEqual(['m-0'])
  const second = await opened(broker, queue)
  expect(await second.receive(3, AbortSignal.timeout(200))).toEqual([])
  await first.close()
  expect((await take(second, 3)).map(({ id }) => id)).toEqual(['m-0', 'm-1', 'm-2'])
})

test('a queue that is missing, or is deleted, is named, and the inbox goes on when it has been made', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  const from = fromRabbitmq({ servers: broker.url, queue })
  const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
  const missing = await log.first('inbox.unavailable')
  expect(missing).toMatchObject({ receiver: 'rabbitmq', side: 'receiver', cause: 'settings' })
  expect(missing.error).toContain(`no queue '${queue}' in vhost '/'`)
  await sendTo(broker, queue, [letter(1)])
  await waitFor(async () => (await payloadsOf(database, queue)).length === 1, { what: 'the first message' })
  await onChannel(broker, (channel) => channel.deleteQueue(queue))
  await log.first(
    'inbox.unavailable',
    ({ error }) => error === `queue '${queue}': the server has cancelled its consumer`,
  )
  await sendTo(broker, queue, [letter(2)])
  await waitFor(async () => (await payloadsOf(database, queue)).length === 2, { what: 'the second message' })
  await running.drain()
})

test('if one of its servers is not there, it receives from another', async ({ database, sluice, queue, broker }) => {
  const servers = [`amqp://127.0.0.1:${await freePort()}`, broker.url]
  const inbox = sluice.inbox(queue, { from: fromRabbitmq({ servers, queue }) })
  // It begins with a random one.
  for (const n of numbers(5)) {
    await sendTo(broker, queue, [letter(n)])
    await waitFor(async () => (await inbox.runOnce({ wait: '100ms' })).enqueued === 1, { what: `message ${n}` })
  }
  expect(await payloadsOf(database, queue)).toEqual(numbers(5))
})

test('a server that does not answer is found out by its missing heartbeats', async ({ sluice, queue, log, broker }) => {
  await sendTo(broker, queue, [])
  const from = fromRabbitmq({ servers: `${broker.url}?heartbeat=1`, queue })
  const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
  await waitFor(async () => (await onChannel(broker, (channel) => channel.checkQueue(queue))).consumerCount === 1, {
    what: 'the consumer',
  })
  onTestFinished(() => broker.thaw())
  broker.freeze()
  await log.first('inbox.unavailable', ({ error }) => error === 'Heartbeat timeout')
  broker.thaw()
  await log.first('inbox.available')
  await running.drain()
})

test('an inbox goes on with a server that was killed and started again, in order and without copies', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await sendTo(broker, queue, numbers(600).map(letter))
  const from = fromRabbitmq({ servers: broker.url, queue })
  await expectToOutliveAKill({ database, sluice, queue, log, from }, broker)
})

test('options that make no sense are refused by name', () => {
  const given = { servers: 'amqp://a', queue: 'billing' }
  expect(() => fromRabbitmq({ ...given, servers: [] })).toThrow('fromRabbitmq.servers: expected one or more addresses')
  expect(() => fromRabbitmq({ ...given, servers: 'http://a' })).toThrow('begin with amqp:// or amqps://')
  expect(() => fromRabbitmq({ ...given, queue: '' })).toThrow('fromRabbitmq.queue: expected the name of a queue')
  expect(() => fromRabbitmq({ ...given, queue: 'é'.repeat(128) })).toThrow('fromRabbitmq.queue: expected')
  expect(() => fromRabbitmq({ ...given, exchange: 'a' } as never)).toThrow('fromRabbitmq')
})
