import { describe, expect, onTestFinished, vi } from 'vitest'
import { TcpRelay } from '../../../faults/environment/tcp-relay.ts'
import type { ReceiverConnection } from '../../../src/inbox/receiver.ts'
import { type FromKafkaOptions, fromKafka } from '../../../src/kafka/from-kafka.ts'
import { kafka } from '../../../src/kafka/kafka.ts'
import { type ReceiverSubject, receiverConformance } from '../../../src/testing/receiver-conformance.ts'
import { idsOf, numbers, QUICK, soon, take } from '../../support/inboxes.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { FakeKafka } from '../../support/servers/fake-kafka.ts'
import type { RecordToPut } from '../../support/servers/fake-kafka-records.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('broker', () => FakeKafka.start({ orders: 1, mail: 2 }))
const IN_TIME = { wait: '500ms' } as const
const record = (n: number): RecordToPut => ({ value: String(n), headers: { id: `m-${n}` } })

function from({ port }: Pick<FakeKafka, 'port'>, options: Partial<FromKafkaOptions> = {}) {
  return fromKafka({
    servers: `127.0.0.1:${port}`,
    topic: 'orders',
    group: 'billing',
    sessionTimeout: '1s',
    ...options,
  })
}

async function opened(broker: FakeKafka, options: Partial<FromKafkaOptions> = {}): Promise<ReceiverConnection> {
  const connection = await from(broker, options).open(soon())
  onTestFinished(() => connection.close())
  return connection
}

describe('as each receiver must', () => {
  for (const { name, run } of receiverConformance) test(name, async ({ broker }) => run(await inKafka(broker)))
})

async function inKafka(broker: FakeKafka): Promise<ReceiverSubject> {
  const way = await TcpRelay.start()
  onTestFinished(() => way.stop())
  way.pointTo(broker.port)
  broker.advertisedPort = way.port
  return {
    from: from(way),
    publish: async (messages) =>
      broker.put(
        'orders',
        0,
        ...messages.map(({ id, body, headers }) => ({ value: body, headers: { ...headers, id } })),
      ),
    cutOff: async () => {
      way.pointTo(undefined)
      way.cut()
      return async () => way.pointTo(broker.port)
    },
  }
}

test('an inbox enqueues what a relay has published, with type, key and headers, and leaves the group', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  const options = { type: 'order.placed', orderingKey: 'grüße', headers: { tracestate: 'a=b' } }
  await put(sluice, queue, [{ id: 7, name: 'é' }], options)
  await sluice.relay(queue, { to: kafka({ servers: `127.0.0.1:${broker.port}`, topic: 'orders' }) }).runOnce()
  const inbox = sluice.inbox(`${queue}.in`, { from: from(broker) })
  expect(await inbox.runOnce(IN_TIME)).toEqual({ enqueued: 1, duplicates: 0, dead: 0 })
  const stored = 'SELECT payload, type, ordering_key, headers FROM sluice.message WHERE queue = $1'
  expect(await database.sql(stored, [`${queue}.in`])).toEqual([
    { payload: { id: 7, name: 'é' }, type: 'order.placed', ordering_key: 'grüße', headers: { tracestate: 'a=b' } },
  ])
  expect([...broker.group('billing').committed]).toEqual([['orders:0', 1n]])
  expect(broker.group('billing').members).toEqual([])
  expect(await inbox.runOnce({ wait: '100ms' })).toEqual({ enqueued: 0, duplicates: 0, dead: 0 })
})

test('a record that is no JSON is a dead letter with its bytes, and a later copy of its place is one too', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  broker.put('orders', 0, { value: Buffer.from([0xff, 0x00]), key: Buffer.from([0xfe]) }, { value: '1' })
  const inbox = sluice.inbox(queue, { from: from(broker) })
  expect(await inbox.runOnce(IN_TIME)).toEqual({ enqueued: 1, duplicates: 0, dead: 1 })
  const letter = 'SELECT payload, ordering_key FROM sluice.dead_letter WHERE queue = $1'
  expect(await database.sql(letter, [queue])).toEqual([{ payload: { base64: '/wA=', bytes: 2 }, ordering_key: '/g==' }])
  broker.group('billing').committed.clear()
  expect(await inbox.runOnce(IN_TIME)).toEqual({ enqueued: 0, duplicates: 2, dead: 0 })
})

test('a rebalance between receive and ack: what another member has now is not acked, and comes to it', async ({
  broker,
}) => {
  broker.put('mail', 0, record(1))
  broker.put('mail', 1, record(2))
  const first = await opened(broker, { topic: 'mail' })
  const messages = await take(first, 2)
  const second = await opened(broker, { topic: 'mail' })
  const group = broker.group('billing')
  await waitFor(() => group.members.every((id) => group.beats.get(id) === group.generation), { what: 'both shares' })
  await first.ack(messages)
  const committed = [...group.committed.keys()]
  expect(committed).toHaveLength(1)
  const [revoked] = await take(second, 1)
  expect(revoked?.id).toBe(committed[0] === 'mail:0' ? 'm-2' : 'm-1')
  broker.put('mail', 0, record(3))
  broker.put('mail', 1, record(4))
  const [own] = await take(first, 1)
  expect(own?.id).toBe(committed[0] === 'mail:0' ? 'm-3' : 'm-4')
})

test('what was read ahead before a rebalance comes once to the members, from the committed offset on', async ({
  broker,
}) => {
  broker.put('mail', 0, ...numbers(13).map(record))
  broker.put('mail', 1, ...numbers(10, 13).map(record))
  const first = await opened(broker, { topic: 'mail' })
  const acked = await take(first, 3)
  await first.ack(acked)
  expect(idsOf(acked)).toEqual(['m-0', 'm-1', 'm-2'])
  const second = await opened(broker, { topic: 'mail' })
  const group = broker.group('billing')
  await waitFor(() => group.members.every((id) => group.beats.get(id) === group.generation), { what: 'both shares' })
  const rest = await Promise.all([first, second].map((one) => take(one, 10)))
  expect(rest.map(idsOf).toSorted()).toEqual([numbers(10, 13), numbers(10, 3)].map((all) => all.map((n) => `m-${n}`)))
  broker.put('mail', 0, record(23))
  broker.put('mail', 1, record(24))
  const [[later], [other]] = await Promise.all([take(first, 1), take(second, 1)])
  expect([later?.id, other?.id].toSorted()).toEqual(['m-23', 'm-24'])
})

test('a member that the group has expelled acks nothing, and receives the messages again', async ({ broker }) => {
  broker.put('orders', 0, record(1))
  const connection = await opened(broker)
  const messages = await take(connection, 1)
  for (const member of broker.group('billing').members) broker.group('billing').remove(member)
  await connection.ack(messages)
  expect([...broker.group('billing').committed]).toEqual([])
  await waitFor(() => broker.group('billing').members.length === 1, { what: 'the member to join again' })
  const again = await take(connection, 1)
  expect(idsOf(again)).toEqual(['m-1'])
  await connection.ack(again)
  expect([...broker.group('billing').committed]).toEqual([['orders:0', 1n]])
})

test('a group that gets another coordinator while it shares out is joined again, by the same members', async ({
  broker,
}) => {
  broker.put('orders', 0, record(1))
  const group = broker.group('billing')
  const gone = { error: 'NOT_COORDINATOR', assignment: Buffer.alloc(0) }
  const sync = vi.spyOn(group, 'sync').mockResolvedValueOnce(gone)
  const connection = await opened(broker)
  const messages = await take(connection, 1)
  sync.mockResolvedValueOnce(gone)
  const second = await opened(broker)
  await waitFor(() => group.beats.size === 2 && [...group.beats.values()].every((one) => one === group.generation), {
    what: 'both members',
  })
  expect(group.members).toHaveLength(2)
  expect(sync.mock.calls.length).toBeGreaterThan(4)
  await Promise.all([connection.ack(messages), second.close()])
})

test('an ack does not stand for messages before it that were received by another call', async ({ broker }) => {
  broker.put('orders', 0, record(1), record(2))
  const connection = await opened(broker)
  await connection.receive(1, soon())
  await connection.ack(await take(connection, 1))
  expect([...broker.group('billing').committed]).toEqual([['orders:0', 0n]])
})

test('two processes, one of which comes later and leaves again, enqueue each message once and in the order of its partition', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  let given = 0
  const give = (count: number) => {
    for (const n of numbers(count, given)) broker.put('mail', n % 2, { ...record(n), key: String(n % 2) })
    given += count
  }
  const other = startTestSluice(database)
  const options = { from: from(broker, { topic: 'mail' }), batchSize: 10, breaker: QUICK }
  give(200)
  const running = sluice.inbox(queue, options).start()
  await waitFor(() => running.statistics().enqueued > 20, { what: 'some messages' })
  const second = other.inbox(queue, options).start()
  const enqueuesBoth = () => {
    give(2)
    return second.statistics().enqueued > 20
  }
  await waitFor(enqueuesBoth, { what: 'messages of the second' })
  await second.drain()
  give(200)
  await waitFor(async () => (await payloadsOf(database, queue)).length >= given, { what: 'all messages' })
  await running.drain()
  const payloads = await payloadsOf(database, queue)
  for (const partition of [0, 1])
    expect(payloads.filter((n) => Number(n) % 2 === partition)).toEqual(
      numbers(given).filter((n) => n % 2 === partition),
    )
})

test('a connection that is opened while a partition has no leader receives the others, and that one when it has one', async ({
  broker,
}) => {
  broker.leaderless.add('mail:0')
  broker.put('mail', 0, record(1))
  broker.put('mail', 1, record(2))
  const connection = await opened(broker, { topic: 'mail' })
  const [other] = await take(connection, 1)
  expect(other?.id).toBe('m-2')
  await connection.ack(other === undefined ? [] : [other])
  expect([...broker.group('billing').committed]).toEqual([['mail:1', 1n]])
  broker.leaderless.clear()
  expect(idsOf(await take(connection, 1))).toEqual(['m-1'])
})

test('a connection none of whose partitions has a leader receives when one has', async ({ broker }) => {
  broker.leaderless.add('orders:0')
  broker.put('orders', 0, record(1))
  const connection = await opened(broker)
  expect(await connection.receive(1, AbortSignal.timeout(100))).toEqual([])
  broker.leaderless.clear()
  expect(idsOf(await take(connection, 1))).toEqual(['m-1'])
})

test('a member that another one has stood in for commits nothing over its offset', async ({ broker }) => {
  for (const partition of [0, 1]) broker.put('mail', partition, record(partition))
  const group = broker.group('billing')
  const shared = (generation: number) =>
    waitFor(() => group.members.every((id) => group.beats.get(id) === generation), { what: `shares ${generation}` })
  const first = await opened(broker, { topic: 'mail' })
  const early = await take(first, 2)
  for (const partition of [0, 1]) broker.put('mail', partition, record(2 + partition))
  const second = await opened(broker, { topic: 'mail' })
  await shared(2)
  await second.ack(await take(second, 2))
  const [committed] = [...group.committed]
  await second.close()
  await shared(3)
  await first.ack(early)
  expect([...group.committed]).toContainEqual(committed)
})

test('partitions that are added to a topic are received', async ({ sluice, queue, broker }) => {
  // The client asks again for what is older.
  const connection = { metadataMaxAge: 50 }
  const running = sluice.inbox(queue, { from: from(broker, { connection }), breaker: QUICK }).start()
  broker.put('orders', 0, record(1))
  await waitFor(() => running.statistics().enqueued === 1, { what: 'the first message' })
  broker.topics.set('orders', 2)
  broker.put('orders', 1, record(2))
  await waitFor(() => running.statistics().enqueued === 2, { what: 'the message of the new partition' })
  await running.drain()
})

test.for([
  ['has been removed', 3n, 5],
  ['does not exist, because the topic has been made anew', 100n, 0],
] as const)(
  'where the record of the offset %s, the inbox goes on with the oldest one',
  async ([, offset, removed], { broker }) => {
    broker.put('orders', 0, ...numbers(7).map(record))
    broker.log.removed.set('orders:0', removed)
    broker.group('billing').committed.set('orders:0', offset)
    const connection = await opened(broker)
    expect(idsOf(await take(connection, 2))).toEqual([`m-${removed}`, `m-${removed + 1}`])
  },
)

test('a missing topic is named, and the inbox goes on when it has been made', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  const running = sluice.inbox(queue, { from: from(broker, { topic: 'shop' }), breaker: QUICK }).start()
  const missing = await log.first('inbox.unavailable')
  expect(missing).toMatchObject({
    receiver: 'kafka',
    side: 'receiver',
    cause: 'settings',
    error: 'Unknown topic shop. Make it, or correct the option topic',
  })
  broker.topics.set('shop', 1)
  broker.put('shop', 0, record(1))
  await waitFor(async () => (await payloadsOf(database, queue)).length === 1, { what: 'the message' })
  await running.drain()
})

test.for([
  ['login', 'SASL_AUTHENTICATION_FAILED'],
  ['describe topics', 'TOPIC_AUTHORIZATION_FAILED'],
  ['find group', 'GROUP_AUTHORIZATION_FAILED'],
] as const)('what the login may not do is a setting: %s', async ([request, error], { sluice, queue, log, broker }) => {
  const sasl = { mechanism: 'PLAIN', username: 'shop', password: 'secret' } as const
  broker.refusals.set(request, error)
  const inbox = sluice.inbox(queue, { from: from(broker, { connection: { sasl } }) })
  await inbox.runOnce(IN_TIME)
  expect(log.of('inbox.unavailable')).toMatchObject([{ cause: 'settings', error: expect.stringContaining(error) }])
  broker.refusals.clear()
  broker.put('orders', 0, record(1))
  expect(await inbox.runOnce(IN_TIME)).toMatchObject({ enqueued: 1 })
})

test('a member without partitions waits for one', async ({ broker }) => {
  const members = [await opened(broker), await opened(broker)]
  const received: number[] = []
  for (const [at, member] of members.entries())
    member.receive(1, soon()).then(
      () => received.push(at),
      () => undefined,
    )
  broker.put('orders', 0, record(1))
  const owner = await waitFor(() => members[received[0] ?? -1], { what: 'the message' })
  expect(received).toHaveLength(1)
  // It has not acked the message, which the other one gets.
  await owner.close()
  await waitFor(() => received.length === 2, { what: 'the message again' })
})

test('options that make no sense are refused by name', () => {
  const given = { servers: 'a:9092', topic: 'orders', group: 'billing' }
  expect(() => fromKafka({ ...given, servers: [] })).toThrow('fromKafka.servers: expected one or more addresses')
  expect(() => fromKafka({ ...given, topic: 'a b' })).toThrow('fromKafka.topic: expected one or more names of topics')
  expect(() => fromKafka({ ...given, topic: [] })).toThrow('fromKafka.topic')
  expect(() => fromKafka({ ...given, group: '' })).toThrow('fromKafka.group: expected the name of a consumer group')
  expect(() => fromKafka({ ...given, sessionTimeout: '1ms' })).toThrow('fromKafka.sessionTimeout')
  expect(() => fromKafka({ ...given, queue: 'a' } as never)).toThrow('fromKafka: expected only the options')
})
