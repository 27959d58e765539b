import { describe, expect, onTestFinished } from 'vitest'
import { TcpRelay } from '../../../faults/environment/tcp-relay.ts'
import type { ReceiverConnection } from '../../../src/inbox/receiver.ts'
import { fromRedis } from '../../../src/redis/from-redis.ts'
import { redis } from '../../../src/redis/redis.ts'
import { type ReceiverSubject, receiverConformance } from '../../../src/testing/receiver-conformance.ts'
import { expectToOutliveAKill, idsOf, letter, numbers, QUICK, soon } from '../../support/inboxes.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { addTo, startRedis, type TestRedis } from '../../support/servers/redis.ts'
import { test as base, put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('broker', ({ skip }) => startRedis(skip))
const from = (url: string, consumer = 'a') => fromRedis({ url, stream: 'shop', group: 'billing', consumer })

describe('as each receiver must', () => {
  for (const { name, run } of receiverConformance) test(name, async ({ broker }) => run(await inRedis(broker)))
})

async function inRedis(broker: TestRedis): Promise<ReceiverSubject> {
  await addGroup(broker)
  const way = await TcpRelay.start()
  onTestFinished(() => way.stop())
  way.pointTo(broker.server.port)
  return {
    from: from(`redis://127.0.0.1:${way.port}`),
    publish: (messages) => addTo(broker.client, 'shop', messages),
    cutOff: async () => {
      way.pointTo(undefined)
      way.cut()
      return async () => way.pointTo(broker.server.port)
    },
  }
}

async function addGroup({ client }: TestRedis): Promise<void> {
  await client.xgroup('CREATE', 'shop', 'billing', '0', 'MKSTREAM')
}

async function opened({ server }: TestRedis, consumer = 'a'): Promise<ReceiverConnection> {
  const connection = await from(server.url, consumer).open(soon())
  onTestFinished(() => connection.close())
  return connection
}

/** The ids of what the group has delivered and has no ack for. */
async function unackedIn({ client }: TestRedis): Promise<readonly string[]> {
  const rows = await client.xpending('shop', 'billing', '-', '+', 100)
  return rows.map((row) => (Array.isArray(row) ? String(row[0]) : ''))
}

test('an inbox enqueues what a relay has published, with type, key and headers', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  await addGroup(broker)
  const { url } = broker.server
  const options = { type: 'order.placed', orderingKey: 'grüße', headers: { tracestate: 'a=b' } }
  await put(sluice, queue, [{ id: 7, name: 'é' }], options)
  await sluice.relay(queue, { to: redis({ url, stream: 'shop' }) }).runOnce()
  const inbox = sluice.inbox(`${queue}.in`, { from: from(url) })
  expect(await inbox.runOnce({ wait: '500ms' })).toEqual({ enqueued: 1, duplicates: 0, dead: 0 })
  const stored = 'SELECT payload, type, ordering_key, headers FROM sluice.message WHERE queue = $1'
  expect(await database.sql(stored, [`${queue}.in`])).toEqual([
    { payload: { id: 7, name: 'é' }, type: 'order.placed', ordering_key: 'grüße', headers: { tracestate: 'a=b' } },
  ])
  expect(await unackedIn(broker)).toEqual([])
  expect(await inbox.runOnce({ wait: '200ms' })).toEqual({ enqueued: 0, duplicates: 0, dead: 0 })
})

test('an entry with other fields is a JSON object of them, and of its headers those that are not text are JSON', async ({
  broker,
}) => {
  await addGroup(broker)
  const { client } = broker
  await client.xadd('shop', '*', 'event', 'e-1', 'name', 'é')
  await client.xadd('shop', '*', 'id', 'm-2', 'body', '2', 'headers', '[]')
  await client.xadd('shop', '*', 'id', 'm-3', 'body', '3', 'headers', '{"a":"b","n":1,"of":{"c":null}}')
  await client.xadd('shop', '*', 'body', Buffer.from([0xff]), 'id', '')
  const received = await (await opened(broker)).receive(10, soon())
  const bytes = received.map(({ id, body, headers }) => ({ id, body: Buffer.from(body).toString('latin1'), headers }))
  expect(bytes).toEqual([
    { id: undefined, body: Buffer.from('{"event":"e-1","name":"é"}').toString('latin1'), headers: {} },
    { id: 'm-2', body: '{"id":"m-2","body":"2","headers":"[]"}', headers: {} },
    { id: 'm-3', body: '3', headers: { a: 'b', n: '1', of: '{"c":null}' } },
    { id: undefined, body: '\u00ff', headers: {} },
  ])
})

test('what a dead consumer has had is claimed after a minute, before what is new', async ({ broker }) => {
  await addGroup(broker)
  const { client } = broker
  await addTo(client, 'shop', [letter(1), letter(2)])
  await (await opened(broker, 'dead')).receive(10, soon())
  const [first = '', second = ''] = await unackedIn(broker)
  await client.xclaim('shop', 'billing', 'dead', 0, first, 'IDLE', 61_000)
  await client.xclaim('shop', 'billing', 'dead', 0, second, 'IDLE', 1_000)
  await addTo(client, 'shop', [letter(3)])
  const connection = await opened(broker, 'heir')
  const claimed = await connection.receive(10, soon())
  expect(idsOf(claimed)).toEqual(['m-1'])
  await connection.ack(claimed)
  const fresh = await connection.receive(10, soon())
  expect(idsOf(fresh)).toEqual(['m-3'])
  await connection.ack(fresh)
  expect(await unackedIn(broker)).toEqual([second])
})

test('an entry that was removed after its delivery is acked, and those beside it come again', async ({ broker }) => {
  await addGroup(broker)
  await addTo(broker.client, 'shop', [letter(1), letter(2), letter(3)])
  const before = await opened(broker)
  await before.receive(10, soon())
  await before.close()
  const [first = '', second = '', third = ''] = await unackedIn(broker)
  await broker.client.xdel('shop', first, second)
  const connection = await opened(broker)
  // The first answers of the server have nothing but what was removed.
  expect(idsOf(await connection.receive(1, soon()))).toEqual(['m-3'])
  expect(await unackedIn(broker)).toEqual([third])
})

test('a group that is missing, or is destroyed, is named, and the inbox goes on when it has been made', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  const { client, server } = broker
  const running = sluice.inbox(queue, { from: from(server.url), breaker: QUICK }).start()
  const missing = await log.first('inbox.unavailable')
  expect(missing).toMatchObject({ receiver: 'redis', side: 'receiver', cause: 'settings' })
  expect(missing.error).toMatch(
    /^NOGROUP No such key 'shop' or consumer group 'billing'.*option\. Make the group, [^.]*$/,
  )
  await addGroup(broker)
  await addTo(client, 'shop', [letter(1)])
  await waitFor(async () => (await payloadsOf(database, queue)).length === 1, { what: 'the first message' })
  const before = log.of('inbox.unavailable').length
  await client.xgroup('DESTROY', 'shop', 'billing')
  const gone = await waitFor(() => log.of('inbox.unavailable')[before], { what: 'a destroyed group' })
  expect(gone).toMatchObject({ cause: 'settings', error: expect.stringContaining('NOGROUP') })
  await addGroup(broker)
  await addTo(client, 'shop', [letter(2)])
  await waitFor(async () => (await payloadsOf(database, queue)).length === 2, { what: 'the second message' })
  await running.drain()
})

test('an inbox goes on with a server that was killed and started again, in order and without copies', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await addGroup(broker)
  await addTo(broker.client, 'shop', numbers(600).map(letter))
  await expectToOutliveAKill({ database, sluice, queue, log, from: from(broker.server.url) }, broker.server)
  expect(await unackedIn(broker)).toEqual([])
})

test('options that make no sense are refused by name', () => {
  const given = { url: 'redis://a', stream: 'shop', group: 'billing', consumer: 'a' }
  expect(() => fromRedis({ ...given, url: 'http://a' })).toThrow('fromRedis.url: expected an address that begins with')
  expect(() => fromRedis({ ...given, url: undefined })).toThrow('fromRedis.url: expected an address')
  expect(() => fromRedis({ ...given, stream: '' })).toThrow('fromRedis.stream: expected the name of a stream')
  expect(() => fromRedis({ ...given, group: '' })).toThrow('fromRedis.group: expected the name of a group')
  expect(() => fromRedis({ ...given, consumer: undefined as never })).toThrow('fromRedis.consumer: expected')
  expect(() => fromRedis({ ...given, queue: 'a' } as never)).toThrow('fromRedis')
})
