import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, onTestFinished } from 'vitest'
import { TcpRelay } from '../../../faults/environment/tcp-relay.ts'
import { freePort } from '../../../server/free-port.ts'
import { opened } from '../../../src/basics/promises/opened.ts'
import { redis } from '../../../src/redis/redis.ts'
import type { OutgoingMessage } from '../../../src/relay/destination.ts'
import { type ConformanceSubject, conformance } from '../../../src/testing/conformance.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { startRedis, storedIn, type TestRedis } from '../../support/servers/redis.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('broker', ({ skip }) => startRedis(skip))
const QUICK = { delay: '10ms', maxDelay: '50ms' } as const
const NEVER = { delay: '1h', maxDelay: '1h' } as const
const IN_AN_HOUR = { kind: 'fixed', delay: '1h' } as const

/** The stream that its payload begins with, as in `shop:1`. */
const byPayload = ({ message }: OutgoingMessage) => String(message.payload).split(':')[0] ?? ''
const bodiesIn = async ({ client }: TestRedis, stream: string) =>
  (await storedIn(client, stream)).map(({ body }) => JSON.parse(body) as unknown)
const ATTEMPTS = 'SELECT payload, attempt FROM sluice.message WHERE queue = $1 ORDER BY id'

describe('the destination', () => {
  for (const { name, run } of conformance) test(name, async ({ broker }) => run(await inRedis(broker)))
})

test('a relay publishes by type, and a consumer gets payload, headers and trace as they were enqueued', async ({
  sluice,
  queue,
  broker: { server, client },
}) => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  const headers = { traceparent, tracestate: 'a=b' }
  const [id] = await put(sluice, queue, [{ id: 7, name: 'é' }], { type: 'order.placed', headers })
  const to = redis({ url: server.url, stream: ({ message }) => `shop:${message.type}` })
  await client.xgroup('CREATE', 'shop:order.placed', 'mail', '$', 'MKSTREAM')
  expect((await sluice.relay(queue, { to }).runOnce()).counts.acked).toBe(1)
  const read = await client.xreadgroup('GROUP', 'mail', 'one', 'STREAMS', 'shop:order.placed', '>')
  expect(JSON.stringify(read)).toContain('["id","')
  const [stored] = await storedIn(client, 'shop:order.placed')
  expect(stored?.id).toMatch(new RegExp(`^[-0-9a-f]{36}/${id}$`))
  expect(JSON.parse(stored?.body ?? '')).toEqual({ id: 7, name: 'é' })
  expect(stored?.headers).toMatchObject({ traceparent, tracestate: 'a=b', 'sluice-type': 'order.placed' })
})

test('a stream drops what it has stored before within the window, and another stream does not', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  const { url } = broker.server
  const publish = async (stream: string, duplicateWindow: '0ms' | '2m') => {
    await put(sluice, queue, ['of'])
    await database.sql('UPDATE sluice.message SET id = $2::bigint WHERE queue = $1', [queue, '9000000000000000'])
    await sluice.relay(queue, { to: redis({ url, stream, duplicateWindow }) }).runOnce()
    expect(await payloadsOf(database, queue)).toEqual([])
    return (await storedIn(broker.client, stream)).length
  }
  expect(await publish('a', '2m')).toBe(1)
  const [mark = ''] = await broker.client.keys('a:id:*')
  await broker.client.pexpire(mark, 60_000)
  expect(await publish('a', '2m')).toBe(1)
  // The window begins anew with each try.
  expect(await broker.client.pttl(mark)).toBeGreaterThan(60_000)
  expect(await publish('b', '2m')).toBe(1)
  expect(await publish('a', '0ms')).toBe(2)
})

test('behind a message that its stream cannot take, none of its key is stored, and others are', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  await broker.client.set('text', 'no stream')
  await put(sluice, queue, ['shop:a1', 'text:a2', 'shop:a3'], { orderingKey: 'a' })
  await put(sluice, queue, ['shop:b1', 'shop:b2'], { orderingKey: 'b' })
  await put(sluice, queue, ['text:c', 'shop:d'])
  const relay = sluice.relay(queue, { to: redis({ url: broker.server.url, stream: byPayload }), retry: IN_AN_HOUR })
  expect((await relay.runOnce()).counts).toMatchObject({ acked: 4, retried: 2 })
  expect((await bodiesIn(broker, 'shop')).toSorted()).toEqual(['shop:a1', 'shop:b1', 'shop:b2', 'shop:d'])
  const failed = 'SELECT payload, attempt, last_error FROM sluice.message WHERE queue = $1 ORDER BY id'
  const last_error = expect.stringContaining('WRONGTYPE')
  expect(await database.sql(failed, [queue])).toEqual([
    { payload: 'text:a2', attempt: 1, last_error },
    { payload: 'shop:a3', attempt: 0, last_error: null },
    { payload: 'text:c', attempt: 1, last_error },
  ])
})

test('a message that could not be stored is stored when it is tried again, before those behind it', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await broker.client.set('shop', 'no stream')
  await put(sluice, queue, [1, 2, 3], { orderingKey: 'a' })
  const to = redis({ url: broker.server.url, stream: () => 'shop' })
  const running = sluice.relay(queue, { to, retry: { kind: 'fixed', delay: '10ms' }, maxAttempts: 1_000 }).start()
  await log.first('message.failed')
  // It has left no mark: else the next attempt would take the message for stored.
  await broker.client.del('shop')
  await untilEmpty(database, queue)
  await running.drain()
  expect(await bodiesIn(broker, 'shop')).toEqual([1, 2, 3])
})

test('a stream of all messages that cannot take them is a setting, and counts no attempt', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await broker.client.set('shop', 'no stream')
  await put(sluice, queue, [1, 2], { orderingKey: 'a' })
  const to = redis({ url: broker.server.url, stream: 'shop' })
  const running = sluice.relay(queue, { to, breaker: QUICK }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({
    cause: 'settings',
    error: expect.stringMatching(/^stream "shop": WRONGTYPE .*\. Name the key of a stream$/),
  })
  expect(await database.sql(ATTEMPTS, [queue])).toEqual([1, 2].map((payload) => ({ payload, attempt: 0 })))
  await broker.client.del('shop')
  await untilEmpty(database, queue)
  await running.drain()
  expect(await bodiesIn(broker, 'shop')).toEqual([1, 2])
})

test('messages wait for memory, and none counts an attempt', async ({ database, sluice, queue, log, broker }) => {
  await put(sluice, queue, [1, 2, 3])
  await broker.client.config('SET', 'maxmemory', '1')
  const to = redis({ url: broker.server.url, stream: 'shop' })
  const running = sluice.relay(queue, { to, breaker: QUICK }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({
    destination: 'redis',
    error: expect.stringContaining('OOM'),
  })
  expect(await database.sql(ATTEMPTS, [queue])).toEqual([1, 2, 3].map((payload) => ({ payload, attempt: 0 })))
  await broker.client.config('SET', 'maxmemory', '0')
  await untilEmpty(database, queue)
  await running.drain()
  expect((await bodiesIn(broker, 'shop')).toSorted()).toEqual([1, 2, 3])
})

test('a message that is larger than the server takes is dead, with the reason', async ({ database, queue, skip }) => {
  const { server, client } = await startRedis(skip, ['--proto-max-bulk-len', '1mb'])
  const sluice = startTestSluice(database, { payloadLimitBytes: 2_000_000 })
  await put(sluice, queue, ['x'.repeat(1_048_577), 'y'])
  const to = redis({ url: server.url, stream: 'shop' })
  expect((await sluice.relay(queue, { to }).runOnce()).counts).toMatchObject({ acked: 1, dead: 1 })
  const [dead] = await database.sql('SELECT reason FROM sluice.dead_letters WHERE queue = $1', [queue])
  expect(dead).toEqual({
    reason: "expected at most 1048576 bytes, the server's proto-max-bulk-len, received 1048579",
  })
  expect(await storedIn(client, 'shop')).toHaveLength(1)
})

test('a stream that is closed to the login fails its own messages alone', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  const { server, client } = broker
  await client.acl(
    'SETUSER',
    'relay',
    'on',
    '>secret',
    '~shop',
    '~shop:*',
    '+evalsha',
    '+eval',
    '+exists',
    '+set',
    '+xadd',
  )
  await put(sluice, queue, ['bank:1', 'shop:1', 'shop:2'])
  const to = redis({ url: `redis://relay:secret@127.0.0.1:${server.port}`, stream: byPayload })
  const relay = sluice.relay(queue, { to, retry: IN_AN_HOUR })
  expect((await relay.runOnce()).counts).toMatchObject({ acked: 2, retried: 1 })
  expect((await bodiesIn(broker, 'shop')).toSorted()).toEqual(['shop:1', 'shop:2'])
  expect(await database.sql(ATTEMPTS, [queue])).toEqual([{ payload: 'bank:1', attempt: 1 }])
  await put(sluice, queue, ['bank:2'])
  const all = redis({ url: `redis://relay:secret@127.0.0.1:${server.port}`, stream: 'bank' })
  await sluice.relay(queue, { to: all }).runOnce()
  expect(log.of('relay.unavailable')).toMatchObject([
    { cause: 'settings', error: expect.stringMatching(/^stream "bank": NOPERM .*\. Permit it to the login/) },
  ])
})

test('a wrong password is a setting, and a server that is not there an outage', async ({
  sluice,
  queue,
  log,
  broker: { server },
}) => {
  const to = redis({ url: `redis://relay:wrong@127.0.0.1:${server.port}`, stream: 'shop' })
  await put(sluice, queue, [1])
  await sluice.relay(queue, { to }).runOnce()
  await server.kill()
  await sluice.relay(queue, { to }).runOnce()
  expect(log.of('relay.unavailable')).toMatchObject([
    { cause: 'settings', error: expect.stringMatching(/^WRONGPASS .*\. Correct the login in url or connection$/) },
    { cause: 'outage', error: expect.stringMatching(new RegExp(`^127.0.0.1:${server.port}: connect ECONNREFUSED`)) },
  ])
})

test('a server that accepts a connection and says nothing is named', async () => {
  const silent = createServer(() => undefined).listen(0, '127.0.0.1')
  onTestFinished(() => void silent.close())
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const to = redis({ url: `redis://user:secret@127.0.0.1:${port}`, stream: 'shop' })
  await expect(opened(to, AbortSignal.timeout(100))).rejects.toThrow(`127.0.0.1:${port}: no connection in time`)
})

test('a replica does not take messages, and with replicas a message is confirmed when they have it', async ({
  database,
  sluice,
  queue,
  log,
  skip,
}) => {
  const { server } = await startRedis(skip, ['--repl-diskless-sync-delay', '0'])
  await put(sluice, queue, [1])
  const to = redis({ url: server.url, stream: 'shop', replicas: 1 })
  const running = sluice.relay(queue, { to, breaker: QUICK, confirmTimeout: '500ms' }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({ error: 'no confirm in time' })
  expect(await database.sql(ATTEMPTS, [queue])).toEqual([{ payload: 1, attempt: 0 }])
  const replica = await startRedis(skip, ['--replicaof', '127.0.0.1', String(server.port)])
  await untilEmpty(database, queue)
  await running.drain()
  expect(await bodiesIn(replica, 'shop')).toEqual([1])
  const wrong = `${queue}.wrong`
  await put(sluice, wrong, [2])
  await sluice.relay(wrong, { to: redis({ url: replica.server.url, stream: 'shop' }) }).runOnce()
  expect(log.of('relay.unavailable').at(-1)).toMatchObject({
    queue: wrong,
    cause: 'outage',
    error: expect.stringContaining('READONLY'),
  })
})

test('a message that a replica lacks is not confirmed, however often it is tried', async ({
  database,
  sluice,
  queue,
  log,
  skip,
}) => {
  const { server } = await startRedis(skip, ['--repl-diskless-sync-delay', '0'])
  const replica = await startRedis(skip, ['--replicaof', '127.0.0.1', String(server.port)])
  const to = redis({ url: server.url, stream: 'shop', replicas: 1 })
  const running = sluice.relay(queue, { to, breaker: QUICK, confirmTimeout: '500ms' }).start()
  await put(sluice, queue, [1])
  await untilEmpty(database, queue)
  replica.server.freeze()
  onTestFinished(() => replica.server.thaw())
  const before = log.of('relay.unavailable').length
  await put(sluice, queue, [2])
  // The server has stored it at the first try, and drops it at the others.
  await waitFor(() => log.of('relay.unavailable').length >= before + 3, { what: 'three tries' })
  expect(await payloadsOf(database, queue)).toEqual([2])
  replica.server.thaw()
  await untilEmpty(database, queue)
  await running.drain()
  expect(await bodiesIn(replica, 'shop')).toEqual([1, 2])
})

test('a wait for replicas that is broken off confirms nothing', async ({ database, sluice, queue, log, broker }) => {
  await put(sluice, queue, [1])
  const to = redis({ url: broker.server.url, stream: 'shop', replicas: 1 })
  const running = sluice.relay(queue, { to, breaker: NEVER, confirmTimeout: '1m' }).start()
  const waiting = async () =>
    /^id=(\d+) .*name=sluice .*flags=b /m.exec(String(await broker.client.client('LIST')))?.[1]
  await broker.client.client('UNBLOCK', await waitFor(waiting, { what: 'the wait for a replica' }))
  expect(await log.first('relay.unavailable')).toMatchObject({ error: 'too few replicas have it' })
  expect(await database.sql(ATTEMPTS, [queue])).toEqual([{ payload: 1, attempt: 0 }])
  await running.drain()
})

test('a server of a Redis Cluster is out of reach, and says why', async ({ database, sluice, queue, log, skip }) => {
  const { server, client } = await startRedis(skip, [
    '--cluster-enabled',
    'yes',
    '--cluster-port',
    String(await freePort()),
  ])
  await client.cluster('ADDSLOTSRANGE', 0, 16_383)
  await put(sluice, queue, [1])
  await sluice.relay(queue, { to: redis({ url: server.url, stream: 'shop' }) }).runOnce()
  expect(log.of('relay.unavailable')).toMatchObject([
    { cause: 'settings', error: expect.stringContaining('CROSSSLOT') },
  ])
  expect(await database.sql(ATTEMPTS, [queue])).toEqual([{ payload: 1, attempt: 0 }])
})

test('a stream keeps about as many entries as it may', async ({ sluice, queue, broker: { server, client } }) => {
  await put(
    sluice,
    queue,
    Array.from({ length: 1_000 }, (_, n) => n),
  )
  await sluice.relay(queue, { to: redis({ url: server.url, stream: 'shop', maxLength: 100 }) }).runOnce()
  const kept = await client.xlen('shop')
  expect(kept).toBeGreaterThanOrEqual(100)
  expect(kept).toBeLessThan(400)
})

test('a server that has forgotten the script gets it again', async ({ sluice, queue, broker: { server, client } }) => {
  const to = redis({ url: server.url, stream: 'shop' })
  const connection = await to.open(new AbortController().signal)
  onTestFinished(() => connection.close())
  await client.script('FLUSH')
  await put(sluice, queue, [1])
  const forgetful = { ...to, open: async () => connection }
  expect((await sluice.relay(queue, { to: forgetful }).runOnce()).counts.acked).toBe(1)
})

test('a relay goes on with a server that was killed, or stood still, and nothing is lost, doubled or out of order', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  const { server } = broker
  const keys = Array.from({ length: 20 }, () => randomUUID())
  const sent = new Map(keys.map((key) => [key, [] as string[]]))
  const enqueue = async (count: number) => {
    for (const [orderingKey, of] of sent) {
      const more = Array.from({ length: count }, (_, n) => `${orderingKey} ${of.length + n}`)
      of.push(...more)
      await put(sluice, queue, more, { orderingKey })
    }
  }
  const outage = async (end: () => unknown) => {
    const before = log.of('relay.unavailable').length
    await end()
    await enqueue(2)
    await waitFor(() => log.of('relay.unavailable').length > before, { what: 'an outage' })
  }
  await enqueue(50)
  const to = redis({ url: server.url, stream: 'shop' })
  const running = sluice.relay(queue, { to, breaker: QUICK, confirmTimeout: '1s', batchSize: 20 }).start()
  await log.first('batch.committed')
  await outage(() => server.kill())
  await server.run()
  await log.first('relay.available')
  onTestFinished(() => server.thaw())
  await outage(() => server.freeze())
  server.thaw()
  await untilEmpty(database, queue)
  await running.drain()
  const bodies = (await bodiesIn(broker, 'shop')) as readonly string[]
  expect(Map.groupBy(bodies, (body) => body.split(' ')[0])).toEqual(sent)
})

test('options that make no sense are refused by name', () => {
  const stream = 'shop'
  const url = 'redis://localhost'
  expect(() => redis({ stream })).toThrow('redis.url: expected an address that begins with redis://')
  expect(() => redis({ url: 'localhost:6379', stream })).toThrow('redis.url')
  expect(() => redis({ url, stream: '' })).toThrow('redis.stream: expected the key of a stream, or a function')
  expect(() => redis({ url, stream, maxLength: 0 })).toThrow('redis.maxLength')
  expect(() => redis({ url, stream, duplicateWindow: '8d' })).toThrow('redis.duplicateWindow')
  expect(() => redis({ url, stream, replicas: -1 })).toThrow('redis.replicas')
  expect(() => redis({ url, stream, key: 'a' } as never)).toThrow('redis: expected only the options')
})

async function inRedis({ server, client }: TestRedis): Promise<ConformanceSubject> {
  await client.set('text', 'no stream')
  const way = await TcpRelay.start()
  onTestFinished(() => way.stop())
  way.pointTo(server.port)
  const stream = ({ headers }: OutgoingMessage) => headers.to ?? 'orders'
  return {
    to: redis({ url: `redis://127.0.0.1:${way.port}`, stream }),
    stored: () => storedIn(client, 'orders'),
    cutOff: async () => {
      way.pointTo(undefined)
      way.cut()
      return async () => way.pointTo(server.port)
    },
    spoil: (message) => ({ ...message, headers: { ...message.headers, to: 'text' } }),
  }
}
