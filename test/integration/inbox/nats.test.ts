import { AckPolicy, type ConsumerConfig } from '@nats-io/jetstream'
import { nanos } from '@nats-io/transport-node'
import { expect } from 'vitest'
import { fromNats } from '../../../src/nats/from-nats.ts'
import { nats } from '../../../src/nats/nats.ts'
import { expectToOutliveAKill, idsOf, letter, numbers, QUICK, soon } from '../../support/inboxes.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { addConsumer, publishTo, startNats } from '../../support/servers/nats.ts'
import { LOGIN, withoutRightToPublish, withoutRightToSubscribe } from '../../support/servers/nats-login.ts'
import { test as base, put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const NEVER = { delay: '1h', maxDelay: '1h' } as const
const test = base.extend('broker', ({ skip }) => startNats(skip))

test('an inbox enqueues what a relay has published, with type, key and headers, and nothing of the broker’s', async ({
  database,
  sluice,
  queue,
  broker: { server, manager },
}) => {
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await addConsumer(manager, 'shop', 'inbox')
  const options = { type: 'order.placed', orderingKey: 'grüße', headers: { tracestate: 'a=b' } }
  await put(sluice, queue, [{ id: 7, name: 'é' }], options)
  await sluice.relay(queue, { to: nats({ servers: server.url, subject: 'shop', stream: 'shop' }) }).runOnce()
  const inbox = sluice.inbox(`${queue}.in`, {
    from: fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' }),
  })
  expect(await inbox.runOnce({ wait: '500ms' })).toEqual({ enqueued: 1, duplicates: 0, dead: 0 })
  const stored = 'SELECT payload, type, ordering_key, headers FROM sluice.message WHERE queue = $1'
  expect(await database.sql(stored, [`${queue}.in`])).toEqual([
    { payload: { id: 7, name: 'é' }, type: 'order.placed', ordering_key: 'grüße', headers: { tracestate: 'a=b' } },
  ])
  expect((await manager.consumers.info('shop', 'inbox')).num_ack_pending).toBe(0)
  expect(await inbox.runOnce({ wait: '200ms' })).toEqual({ enqueued: 0, duplicates: 0, dead: 0 })
})

test('a message without an id is a dead letter, and a publisher’s own id makes it one message', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  const { server, manager, connection } = broker
  await manager.streams.add({ name: 'shop', subjects: ['shop'], duplicate_window: nanos(100) })
  await addConsumer(manager, 'shop', 'inbox')
  connection.publish('shop', '1')
  await publishTo(broker, 'shop', [letter(2)])
  await waitFor(
    async () => {
      await publishTo(broker, 'shop', [letter(2)])
      return (await manager.streams.info('shop')).state.messages >= 3
    },
    { what: 'a copy in the stream' },
  )
  const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' })
  expect(await sluice.inbox(queue, { from }).runOnce({ wait: '500ms' })).toEqual({
    enqueued: 1,
    duplicates: 1,
    dead: 1,
  })
  expect(await payloadsOf(database, queue)).toEqual([2])
})

test.for([
  ['ack_policy: expected explicit, received "none"', { ack_policy: AckPolicy.None }],
  ['ack_policy: expected explicit, received "all"', { ack_policy: AckPolicy.All }],
  ['backoff: expected none, but ack_wait, received an array of 1', { backoff: [nanos(2_000)], max_deliver: 2 }],
  [
    'max_deliver: expected -1, any number of times, received 5. As in nats consumer edit <stream> inbox --max-deliver=-1',
    { max_deliver: 5 },
  ],
  ['ack_wait: expected at least one second, received "100 ms"', { ack_wait: nanos(100) }],
] as [string, Partial<ConsumerConfig>][])(
  'a consumer that may lose messages is refused by name: %s',
  async ([words, terms], { sluice, queue, log, broker: { server, manager } }) => {
    await manager.streams.add({ name: 'shop', subjects: ['shop'] })
    await addConsumer(manager, 'shop', 'inbox', terms)
    const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' })
    await sluice.inbox(queue, { from }).runOnce({ wait: '100ms' })
    expect(log.of('inbox.unavailable')).toMatchObject([
      { cause: 'settings', error: expect.stringContaining(`consumer inbox.${words}`) },
    ])
  },
)

test('a runOnce waits for what a process that died has had, and receives it in order', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  const { server, manager } = broker
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await addConsumer(manager, 'shop', 'inbox')
  await publishTo(broker, 'shop', [letter(1), letter(2)])
  const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' })
  const died = await from.open(soon())
  expect(await died.receive(2, soon())).toHaveLength(2)
  await died.close()
  await publishTo(broker, 'shop', [letter(3)])
  const once = sluice.inbox(queue, { from }).runOnce({ wait: '500ms' })
  expect(await once).toEqual({ enqueued: 3, duplicates: 0, dead: 0 })
  expect(await payloadsOf(database, queue)).toEqual([1, 2, 3])
})

test('a new connection waits for what one that was cut off may still be given, and receives it in order', async ({
  broker,
}) => {
  const { server, manager } = broker
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await addConsumer(manager, 'shop', 'inbox')
  const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' })
  const cutOff = await from.open(soon())
  const given = cutOff.receive(1, soon())
  const asked = async () => (await manager.consumers.info('shop', 'inbox')).num_waiting === 1
  await waitFor(asked, { what: 'the request for a message' })
  const next = await from.open(soon())
  try {
    await publishTo(broker, 'shop', [letter(1), letter(2)])
    expect(idsOf(await given)).toEqual(['m-1'])
    expect(idsOf(await next.receive(2, soon()))).toEqual(['m-1', 'm-2'])
  } finally {
    await Promise.all([cutOff.close(), next.close()])
  }
})

test('a process that joins another one on a consumer waits for its requests of before, and not for its messages', async ({
  skip,
}) => {
  const broker = await startNats(skip)
  const { server, manager } = broker
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await addConsumer(manager, 'shop', 'inbox', { ack_wait: nanos(600_000) })
  const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' })
  const first = await from.open(soon())
  await publishTo(broker, 'shop', [letter(1)])
  // It is not acked, and would be delivered again after ten minutes.
  expect(idsOf(await first.receive(1, soon()))).toEqual(['m-1'])
  const leaving = new AbortController()
  const asking = first.receive(1, leaving.signal)
  const asked = async () => (await manager.consumers.info('shop', 'inbox')).num_waiting === 1
  await waitFor(asked, { what: 'the request for a message' })
  const second = await from.open(soon())
  try {
    const given = second.receive(1, soon())
    await waitFor(() => second.waitMs === 0, { what: 'the end of the wait' })
    // Both ask now. The server gives each one message.
    const both = async () => (await manager.consumers.info('shop', 'inbox')).num_waiting === 2
    await waitFor(both, { what: 'two requests' })
    await publishTo(broker, 'shop', [letter(2), letter(3)])
    expect([...idsOf(await asking), ...idsOf(await given)].toSorted()).toEqual(['m-2', 'm-3'])
  } finally {
    leaving.abort()
    await Promise.all([first.close(), second.close()])
  }
})

test('acks that the server does not take are an error, which names the permission', async ({
  sluice,
  queue,
  log,
  skip,
}) => {
  const broker = await startNats(skip, await withoutRightToPublish('$JS.ACK.>'))
  const { server, manager } = broker
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await addConsumer(manager, 'shop', 'inbox')
  await publishTo(broker, 'shop', [letter(1), letter(2)])
  const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox', connection: LOGIN })
  expect(await sluice.inbox(queue, { from }).runOnce({ wait: '500ms' })).toMatchObject({ enqueued: 2 })
  expect(log.of('inbox.unavailable')).toMatchObject([
    {
      side: 'receiver',
      cause: 'settings',
      error: expect.stringMatching(/permission.*: let the login publish there$/i),
    },
  ])
})

test('a login that may not ask for messages is told so at once, with the subject', async ({
  sluice,
  queue,
  log,
  skip,
}) => {
  const broker = await startNats(skip, await withoutRightToPublish('$JS.API.CONSUMER.MSG.NEXT.>'))
  const { server, manager } = broker
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await addConsumer(manager, 'shop', 'inbox')
  const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox', connection: LOGIN })
  const running = sluice.inbox(queue, { from, breaker: NEVER }).start()
  const subject = '"$JS.API.CONSUMER.MSG.NEXT.shop.inbox"'
  expect(await log.first('inbox.unavailable')).toMatchObject({
    cause: 'settings',
    error: `Permissions Violation for Publish to ${subject}: let the login publish there`,
  })
  await running.drain()
})

test('a refused login is a wrong setting', async ({ sluice, queue, log, skip }) => {
  const { server } = await startNats(skip, await withoutRightToPublish('closed'))
  const connection = { ...LOGIN, pass: 'wrong' }
  const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox', connection })
  await sluice.inbox(queue, { from }).runOnce({ wait: '100ms' })
  expect(log.of('inbox.unavailable')).toMatchObject([
    {
      cause: 'settings',
      error: expect.stringMatching(/^127\.0\.0\.1:\d+: Authorization Violation.*Correct the login/i),
    },
  ])
})

test('a login that may not subscribe to its inbox is told so, and with an inbox of its own it receives', async ({
  sluice,
  queue,
  log,
  skip,
}) => {
  const broker = await startNats(skip, await withoutRightToSubscribe('_INBOX.>'))
  const { server, manager } = broker
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await addConsumer(manager, 'shop', 'inbox')
  await publishTo(broker, 'shop', [letter(1)])
  const receiving = (connection: typeof LOGIN & { readonly inboxPrefix?: string }) => {
    const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox', connection })
    return sluice.inbox(queue, { from }).runOnce({ wait: '500ms' })
  }
  expect(await receiving(LOGIN)).toMatchObject({ enqueued: 0 })
  expect(log.of('inbox.unavailable')).toMatchObject([
    { error: expect.stringMatching(/^Permissions Violation for Subscription to "_INBOX\.[^"]+": .*inboxPrefix/) },
  ])
  expect(await receiving({ ...LOGIN, inboxPrefix: 'receiver' })).toMatchObject({ enqueued: 1 })
})

test('a missing stream is named as a wrong setting, and a server that is not there as an outage', async ({
  sluice,
  queue,
  log,
  broker: { server, manager },
}) => {
  const inbox = sluice.inbox(queue, { from: fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' }) })
  await inbox.runOnce({ wait: '100ms' })
  const missing =
    'fromNats: expected consumer "inbox" of stream "shop", received: stream not found. Make it, or correct'
  expect(log.of('inbox.unavailable')).toMatchObject([{ cause: 'settings', error: expect.stringContaining(missing) }])
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await addConsumer(manager, 'shop', 'inbox')
  await server.kill()
  await inbox.runOnce({ wait: '100ms' })
  expect(log.of('inbox.unavailable')).toMatchObject([{ cause: 'settings' }, { cause: 'outage' }])
})

test('a missing consumer is named, and the inbox goes on when it has been made', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  const { server, manager } = broker
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await publishTo(broker, 'shop', [letter(1)])
  const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' })
  const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
  expect(await log.first('inbox.unavailable')).toMatchObject({
    receiver: 'nats',
    side: 'receiver',
    error: expect.stringContaining('consumer not found'),
  })
  await addConsumer(manager, 'shop', 'inbox')
  await log.first('inbox.available')
  await waitFor(async () => (await payloadsOf(database, queue)).length === 1, { what: 'the message' })
  await running.drain()
})

test('an inbox goes on with a server that was killed and started again, in order and without copies', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  const { server, manager } = broker
  await manager.streams.add({ name: 'shop', subjects: ['shop'] })
  await addConsumer(manager, 'shop', 'inbox')
  await publishTo(broker, 'shop', numbers(600).map(letter))
  const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' })
  await expectToOutliveAKill({ database, sluice, queue, log, from }, server)
})

test('options that make no sense are refused by name', () => {
  const given = { servers: 'nats://a', stream: 'shop', consumer: 'inbox' }
  expect(() => fromNats({ ...given, servers: [] })).toThrow('fromNats.servers: expected one or more addresses')
  expect(() => fromNats({ ...given, stream: '' })).toThrow('fromNats.stream: expected the name of a stream')
  expect(() => fromNats({ ...given, consumer: undefined as never })).toThrow('fromNats.consumer: expected')
  expect(() => fromNats({ ...given, subject: 'a' } as never)).toThrow('fromNats')
})
