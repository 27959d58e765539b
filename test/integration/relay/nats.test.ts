import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { DiscardPolicy, RetentionPolicy } from '@nats-io/jetstream'
import { expect, onTestFinished, vi } from 'vitest'
import { opened } from '../../../src/basics/promises/opened.ts'
import { fromNats } from '../../../src/nats/from-nats.ts'
import { nats } from '../../../src/nats/nats.ts'
import type { OutgoingMessage } from '../../../src/relay/destination.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { breakingWay } from '../../support/servers/breaking-way.ts'
import { startNats, storedIn } from '../../support/servers/nats.ts'
import { LOGIN, withoutRightToPublish, withoutRightToSubscribe } from '../../support/servers/nats-login.ts'
import { test as base, put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('broker', ({ skip }) => startNats(skip))
const QUICK = { delay: '10ms', maxDelay: '50ms' } as const

test('a relay publishes by type, and a consumer gets payload, headers and trace as they were enqueued', async ({
  sluice,
  queue,
  broker: { server, manager },
}) => {
  await manager.streams.add({ name: 'shop', subjects: ['shop.>'] })
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  await put(sluice, queue, [{ id: 7, name: 'é' }], {
    type: 'order.placed',
    headers: { traceparent, tracestate: 'a=b' },
  })
  const subject = vi.fn(({ message }: OutgoingMessage) => `shop.${message.type}`)
  const to = nats({ servers: server.url, subject, stream: 'shop' })
  expect((await sluice.relay(queue, { to }).runOnce()).counts.acked).toBe(1)
  expect(subject).toHaveBeenCalledTimes(1)
  const [stored] = await storedIn(manager, 'shop')
  expect(JSON.parse(stored?.body ?? '')).toEqual({ id: 7, name: 'é' })
  expect(stored?.headers).toMatchObject({ traceparent, tracestate: 'a=b', 'sluice-type': 'order.placed' })
  expect((await manager.streams.getMessage('shop', { last_by_subj: 'shop.order.placed' }))?.seq).toBe(1)
})

test('messages of a copy of the database are not taken for duplicates once the copy has another name', async ({
  database,
  sluice,
  queue,
  broker: { server, manager },
}) => {
  await manager.streams.add({ name: 'all', subjects: ['all'] })
  const relay = sluice.relay(queue, { to: nats({ servers: server.url, subject: 'all' }) })
  const publishWithId = async () => {
    await put(sluice, queue, ['of'])
    await database.sql('UPDATE sluice.message SET id = $2::bigint WHERE queue = $1', [queue, '9000000000000000'])
    await relay.runOnce()
    return (await storedIn(manager, 'all')).length
  }
  expect(await publishWithId()).toBe(1)
  expect(await publishWithId()).toBe(1)
  await database.sql('UPDATE sluice.source SET id = DEFAULT')
  expect(await publishWithId()).toBe(2)
})

test('a subject with a wildcard, of the server or of nobody never gets a message', async ({
  database,
  sluice,
  queue,
  broker: { server, manager },
}) => {
  await manager.streams.add({ name: 'shop', subjects: ['shop.>'] })
  for (const subject of ['shop.*', 'shop.>', 'shop..a', 'shop. a', '$JS.API.STREAM.PURGE.shop', 'nobody'])
    await put(sluice, queue, [subject])
  await put(sluice, queue, ['shop.header'], { headers: { 'Nats-Msg-Id': 'mine' } })
  const to = nats({ servers: server.url, subject: ({ message }) => String(message.payload) })
  await sluice.relay(queue, { to, retry: { kind: 'fixed', delay: '1h' } }).runOnce()
  const dead = await database.sql<{ payload: string; reason: string }>(
    'SELECT payload, reason FROM sluice.dead_letters WHERE queue = $1 ORDER BY id',
    [queue],
  )
  expect(dead.map(({ payload, reason }) => `${payload}: ${reason}`)).toEqual([
    'shop.*: nats.subject: expected a subject without the wildcards * and >, received "shop.*"',
    'shop.>: nats.subject: expected a subject without the wildcards * and >, received "shop.>"',
    'shop..a: nats.subject: expected a subject without empty tokens, received "shop..a"',
    'shop. a: nats.subject: expected a subject without spaces and control characters, received "shop. a"',
    '$JS.API.STREAM.PURGE.shop: nats.subject: expected a subject that is not the own of the server, received "$JS.API.STREAM.PURGE.shop"',
    'shop.header: header "Nats-Msg-Id": expected a name that does not begin with Nats-',
  ])
  // A stream for it may be made: each try is an attempt.
  expect(await database.sql('SELECT payload, attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([
    { payload: 'nobody', attempt: 1 },
  ])
  expect(await storedIn(manager, 'shop')).toEqual([])
})

test('an answer that is not from the stream is no confirm, and a failed attempt says so', async ({
  database,
  sluice,
  queue,
  broker: { server, manager, connection },
}) => {
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  const answers: Readonly<Record<string, string>> = {
    'service.ok': '{"ok":true}',
    'service.text': 'ok',
    'service.json': '"ok"',
    'service.error': '{"error":{"reason":"busy"}}',
    'service.other': '{"stream":"other","seq":7}',
  }
  connection.subscribe('service.*', { callback: (_, message) => void message.respond(answers[message.subject]) })
  await connection.flush()
  await put(sluice, queue, [...Object.keys(answers), 'shop'])
  const to = nats({ servers: server.url, subject: ({ message }) => String(message.payload), stream: 'shop' })
  const { counts } = await sluice.relay(queue, { to, retry: { kind: 'fixed', delay: '1h' } }).runOnce()
  expect(counts).toMatchObject({ acked: 1, retried: 5, dead: 0 })
  const left = await database.sql('SELECT payload, last_error FROM sluice.message WHERE queue = $1 ORDER BY id', [
    queue,
  ])
  const error = (subject: string) => `subject "${subject}": the answer is not from a stream`
  expect(left).toEqual(Object.keys(answers).map((payload) => ({ payload, last_error: error(payload) })))
})

test('a message to a subject that is closed to the login is a failed attempt, and the others go', async ({
  database,
  sluice,
  queue,
  skip,
}) => {
  const { server, manager } = await startNats(skip, await withoutRightToPublish('shop.closed'))
  await manager.streams.add({ name: 'shop', subjects: ['shop.>'] })
  await put(sluice, queue, ['shop.a', 'shop.closed', 'shop.closed', 'shop.b'])
  const subject = ({ message }: OutgoingMessage) => String(message.payload)
  const to = nats({ servers: server.url, subject, connection: LOGIN })
  const { counts } = await sluice.relay(queue, { to, retry: { kind: 'fixed', delay: '1h' } }).runOnce()
  expect(counts).toMatchObject({ acked: 2, retried: 2, dead: 0 })
  const left = 'SELECT payload, attempt, last_error FROM sluice.message WHERE queue = $1'
  const closed = { payload: 'shop.closed', attempt: 1, last_error: expect.stringMatching(/permission.*shop\.closed/i) }
  expect(await database.sql(left, [queue])).toEqual([closed, closed])
})

test('a subject of all messages that is closed to the login is a setting, and counts no attempt', async ({
  database,
  sluice,
  queue,
  log,
  skip,
}) => {
  const { server, manager } = await startNats(skip, await withoutRightToPublish('shop.closed'))
  await manager.streams.add({ name: 'shop', subjects: ['shop.>'] })
  await put(sluice, queue, [1, 2])
  await sluice.relay(queue, { to: nats({ servers: server.url, subject: 'shop.closed', connection: LOGIN }) }).runOnce()
  expect(log.of('relay.unavailable')).toMatchObject([
    { cause: 'settings', error: expect.stringMatching(/Publish to "shop\.closed": let the login publish there$/) },
  ])
  expect(log.of('message.failed')).toEqual([])
  expect(await database.sql('SELECT DISTINCT attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([
    { attempt: 0 },
  ])
})

test('a relay whose subject has lost its stream waits, and goes on when it is back', async ({
  database,
  sluice,
  queue,
  log,
  broker: { server, manager },
}) => {
  const shop = { name: 'shop', subjects: ['shop'] }
  await manager.streams.add(shop)
  const running = sluice.relay(queue, { to: nats({ servers: server.url, subject: 'shop' }), breaker: QUICK }).start()
  await put(sluice, queue, [1])
  await log.first('batch.committed')
  await manager.streams.delete('shop')
  await put(sluice, queue, [2])
  expect(await log.first('relay.unavailable')).toMatchObject({
    cause: 'settings',
    error: 'subject "shop": no stream matches subject. Make the stream, or correct its name or subject in the options',
  })
  await manager.streams.add(shop)
  await waitFor(async () => (await payloadsOf(database, queue)).length === 0, { what: 'the message' })
  await running.drain()
  expect(log.of('message.failed')).toEqual([])
})

test('of several servers each is named with its reason, and one that answers is enough', async ({
  sluice,
  queue,
  log,
  broker: { server, manager },
}) => {
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await put(sluice, queue, [1])
  const dead = ['127.0.0.1:1', 'nats://localhost:2']
  const relayTo = (servers: readonly string[]) => sluice.relay(queue, { to: nats({ servers, subject: 'shop' }) })
  await relayTo(dead).runOnce()
  const reasons = log.of('relay.unavailable')[0]?.error.split('; ') ?? []
  expect(reasons.toSorted()).toEqual([
    expect.stringMatching(/^127\.0\.0\.1:1: connection refused/),
    expect.stringMatching(/^localhost:2: connection refused/),
  ])
  expect((await relayTo([...dead, server.url]).runOnce()).counts.acked).toBe(1)
})

test('a closed subject is told from others whatever its characters, and what to permit is named', async ({
  database,
  sluice,
  queue,
  log,
  skip,
}) => {
  const closed = 'shop."a\\b"'
  const { server, manager } = await startNats(skip, await withoutRightToPublish(closed))
  await manager.streams.add({ name: 'shop', subjects: ['shop.>'] })
  await put(sluice, queue, ['shop.a', closed])
  const to = nats({ servers: server.url, subject: ({ message }) => String(message.payload), connection: LOGIN })
  const { counts } = await sluice.relay(queue, { to, retry: { kind: 'fixed', delay: '1h' } }).runOnce()
  expect(counts).toMatchObject({ acked: 1, retried: 1 })
  expect(await database.sql('SELECT last_error FROM sluice.message WHERE queue = $1', [queue])).toEqual([
    { last_error: expect.stringMatching(/Permissions Violation for Publish to .*: let the login publish there$/) },
  ])
  expect(log.of('relay.unavailable')).toEqual([])
})

test.for([
  ['a subject of each message', () => 'shop'],
  ['one subject', 'shop'],
] as const)(
  'a login that may not subscribe to its inbox is told so before it publishes, with %s',
  async ([, subject], { database, sluice, queue, log, skip }) => {
    const { server, manager } = await startNats(skip, await withoutRightToSubscribe('_INBOX.>'))
    await manager.streams.add({ name: 'shop', subjects: ['shop'] })
    await put(sluice, queue, [1])
    const relayBy = (connection: typeof LOGIN & { readonly inboxPrefix?: string }) =>
      sluice.relay(queue, { to: nats({ servers: server.url, subject, connection }) })
    await relayBy(LOGIN).runOnce()
    expect(log.of('relay.unavailable')).toMatchObject([
      {
        cause: 'settings',
        error: expect.stringMatching(/^Permissions Violation for Subscription to "_INBOX\.[^"]+": .*inboxPrefix/),
      },
    ])
    expect(await storedIn(manager, 'shop')).toEqual([])
    await relayBy({ ...LOGIN, inboxPrefix: 'relay' }).runOnce()
    expect(await payloadsOf(database, queue)).toEqual([])
  },
)

test('a refused login is a setting, and a server that is not there an outage', async ({ sluice, queue, log, skip }) => {
  const { server } = await startNats(skip, await withoutRightToPublish('closed'))
  await put(sluice, queue, [1])
  const to = nats({ servers: server.url, subject: 'shop', connection: { ...LOGIN, pass: 'wrong' } })
  await sluice.relay(queue, { to }).runOnce()
  await server.kill()
  await sluice.relay(queue, { to }).runOnce()
  expect(log.of('relay.unavailable')).toMatchObject([
    {
      cause: 'settings',
      error: expect.stringMatching(/^127\.0\.0\.1:\d+: Authorization Violation.*Correct the login/i),
    },
    { cause: 'outage', error: expect.stringMatching(/^127\.0\.0\.1:\d+: connection refused/) },
  ])
})

test('a message that is too large for the stream or for the server is dead, with the reason', async ({
  database,
  sluice,
  queue,
  broker: { server, manager },
}) => {
  await manager.streams.add({ name: 'small', subjects: ['small'], max_msg_size: 2_000 })
  await put(sluice, queue, ['x'.repeat(3_000), 'y'.repeat(1_048_400), 'z'])
  const to = nats({ servers: server.url, subject: 'small' })
  expect((await sluice.relay(queue, { to }).runOnce()).counts).toMatchObject({ acked: 1, dead: 2 })
  const reasons = await database.sql<{ reason: string }>(
    'SELECT reason FROM sluice.dead_letters WHERE queue = $1 ORDER BY id',
    [queue],
  )
  expect(reasons.map(({ reason }) => reason)).toEqual([
    expect.stringContaining('message size exceeds maximum allowed'),
    expect.stringContaining("expected at most 1048576 bytes, the server's max_payload, received 104"),
  ])
})

test('a message with a long subject or large headers is dead, with the reason, and the next one goes out', async ({
  database,
  sluice,
  queue,
  broker: { server, manager },
}) => {
  await manager.streams.add({ name: 'shop', subjects: ['shop.>'] })
  await put(sluice, queue, [`shop.${'x'.repeat(5_000)}`])
  await put(sluice, queue, ['shop.large'], { headers: { large: 'é'.repeat(32_700) } })
  await put(sluice, queue, [`shop.${'y'.repeat(1_995)}`, 'shop.small'])
  const to = nats({ servers: server.url, subject: ({ message }) => String(message.payload) })
  expect((await sluice.relay(queue, { to }).runOnce()).counts).toMatchObject({ acked: 2, dead: 2 })
  const dead = 'SELECT reason FROM sluice.dead_letters WHERE queue = $1 ORDER BY id'
  expect(await database.sql(dead, [queue])).toEqual([
    { reason: expect.stringContaining('nats.subject: expected a subject of at most 2000 bytes, received "shop.xxx') },
    { reason: expect.stringMatching(/^headers: expected at most 65535 bytes, received 65\d\d\d$/) },
  ])
})

test('a missing stream is named, and the relay goes on when it has been made', async ({
  sluice,
  queue,
  log,
  broker: { server, manager },
}) => {
  await put(sluice, queue, [1])
  const to = nats({ servers: server.url, subject: 'shop.orders', stream: 'shop' })
  const running = sluice.relay(queue, { to, breaker: QUICK }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({
    destination: 'nats',
    cause: 'settings',
    error: 'nats: expected stream "shop", received: stream not found. Make it, or correct the option stream',
  })
  await manager.streams.add({ name: 'shop', subjects: ['shop.>'] })
  await log.first('relay.available')
  await waitFor(async () => (await storedIn(manager, 'shop')).length === 1, { what: 'the message' })
  await running.drain()
})

test('a relay whose named stream does not have the subject says so, and goes on when it does', async ({
  sluice,
  queue,
  log,
  broker: { server, manager },
}) => {
  await manager.streams.add({ name: 'shop', subjects: ['shop.orders'] })
  await put(sluice, queue, [1])
  const to = nats({ servers: server.url, subject: 'shop.shipped', stream: 'shop' })
  const running = sluice.relay(queue, { to, breaker: QUICK }).start()
  const remedy = 'Stream "shop" does not have this subject: add it there, or correct the option subject'
  expect(await log.first('relay.unavailable')).toMatchObject({
    cause: 'settings',
    error: `subject "shop.shipped": no stream matches subject. ${remedy}`,
  })
  await manager.streams.update('shop', { subjects: ['shop.>'] })
  await waitFor(async () => (await storedIn(manager, 'shop')).length === 1, { what: 'the message' })
  await running.drain()
})

test('a relay waits for its named stream when that is deleted, and no message counts an attempt', async ({
  database,
  sluice,
  queue,
  log,
  broker: { server, manager },
}) => {
  const shop = { name: 'shop', subjects: ['shop'] }
  await manager.streams.add(shop)
  await put(sluice, queue, [1])
  const to = nats({ servers: server.url, subject: 'shop', stream: 'shop' })
  const running = sluice.relay(queue, { to, breaker: QUICK, retry: { kind: 'fixed', delay: '1h' } }).start()
  await log.first('batch.committed')
  await manager.streams.delete('shop')
  await put(sluice, queue, [2])
  expect(await log.first('relay.unavailable')).toMatchObject({
    cause: 'settings',
    error: expect.stringContaining('expected stream "shop", received: stream not found'),
  })
  const attempts = await database.sql('SELECT attempt FROM sluice.message WHERE queue = $1', [queue])
  expect(attempts).toEqual([{ attempt: 0 }])
  await manager.streams.add(shop)
  await waitFor(async () => (await storedIn(manager, 'shop')).length === 1, { what: 'the message' })
  await running.drain()
  expect(await payloadsOf(database, queue)).toEqual([])
})

test('messages wait for room in a full stream, and none counts an attempt', async ({
  database,
  sluice,
  queue,
  log,
  broker: { server, manager },
}) => {
  await manager.streams.add({
    name: 'work',
    subjects: ['work'],
    max_msgs: 3,
    discard: DiscardPolicy.New,
    retention: RetentionPolicy.Limits,
  })
  await put(sluice, queue, [1, 2, 3, 4, 5])
  const to = nats({ servers: server.url, subject: 'work' })
  const running = sluice.relay(queue, { to, breaker: QUICK }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({
    cause: 'outage',
    error: expect.stringContaining('maximum messages'),
  })
  expect(await payloadsOf(database, queue)).toHaveLength(2)
  expect(await database.sql('SELECT DISTINCT attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([
    { attempt: 0 },
  ])
  await manager.streams.purge('work')
  await waitFor(async () => (await payloadsOf(database, queue)).length === 0, { what: 'room for the rest' })
  await running.drain()
})

test('a relay goes on with a server that was killed and started again, and nothing is lost or doubled', async ({
  database,
  sluice,
  queue,
  log,
  broker: { server, manager },
}) => {
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  const to = nats({ servers: server.url, subject: 'shop' })
  const sent = Array.from({ length: 2_000 }, () => randomUUID())
  await put(sluice, queue, sent)
  const running = sluice.relay(queue, { to, breaker: QUICK, confirmTimeout: '2s', batchSize: 20 }).start()
  await log.first('batch.committed')
  await server.kill()
  await log.first('relay.unavailable')
  await server.run()
  await waitFor(async () => (await payloadsOf(database, queue)).length === 0, { what: 'all messages' })
  await running.drain()
  const stored = (await storedIn(manager, 'shop')).map(({ body }) => JSON.parse(body) as string)
  expect(stored.toSorted()).toEqual(sent.toSorted())
})

test('a server that breaks off before answers can come is named at once', async ({ broker: { server, manager } }) => {
  await manager.streams.add({ name: 'shop', subjects: ['shop.>'] })
  // What it says of itself, and two answers.
  for (const answers of [0, 1, 2]) {
    const address = await breakingWay(server.port, answers)
    const opening = nats({ servers: address, subject: 'shop.a' }).open(AbortSignal.timeout(10_000))
    await expect(opening, `after ${answers} answers`).rejects.toThrow(new RegExp(`^${address}: (?!no connection)`))
  }
})

test.for([
  ['nothing', ''],
  [
    'nothing after its greeting',
    'INFO {"server_id":"a","version":"2.12.0","headers":true,"max_payload":1048576}\r\nPONG\r\n',
  ],
] as const)('a server that accepts a connection and says %s is named', async ([, greeting]) => {
  const silent = createServer((socket) => {
    socket.on('error', () => undefined).write(greeting)
    onTestFinished(() => void socket.destroy())
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void silent.close())
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const server = `127.0.0.1:${port}`
  const adapters: readonly Parameters<typeof opened>[0][] = [
    nats({ servers: `nats://${server}`, subject: 'shop', stream: 'shop' }),
    fromNats({ servers: `nats://${server}`, stream: 'shop', consumer: 'billing' }),
  ]
  for (const adapter of adapters)
    await expect(opened(adapter, AbortSignal.timeout(100))).rejects.toThrow(`${server}: no connection in time`)
})
