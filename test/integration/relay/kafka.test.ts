import { describe, expect, onTestFinished } from 'vitest'
import { TcpRelay } from '../../../faults/environment/tcp-relay.ts'
import { kafka } from '../../../src/kafka/kafka.ts'
import type { OutgoingMessage } from '../../../src/relay/destination.ts'
import { type ConformanceSubject, conformance, type PublishedMessage } from '../../../src/testing/conformance.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { FakeKafka } from '../../support/servers/fake-kafka.ts'
import { test as base, put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('broker', () => FakeKafka.start({ orders: 1, mail: 10 }))
const QUICK = { delay: '10ms', maxDelay: '50ms' } as const
const IN_AN_HOUR = { kind: 'fixed', delay: '1h' } as const

const serversOf = ({ port }: FakeKafka) => `127.0.0.1:${port}`
/** The topic that its payload begins with, as in `mail:1`. */
const byPayload = ({ message }: OutgoingMessage) => String(message.payload).split(':')[0] ?? ''
const ATTEMPTS = 'SELECT payload, attempt FROM sluice.message WHERE queue = $1 ORDER BY id'

function publishedIn({ stored }: FakeKafka, place: string): readonly PublishedMessage[] {
  return (stored.get(place) ?? []).map(({ value, headers }) => {
    const texts = Object.fromEntries(headers.map(([name, text]) => [String(name), String(text)]))
    return { id: texts.id ?? '', body: String(value), headers: texts }
  })
}

const bodiesIn = (broker: FakeKafka, place: string) =>
  publishedIn(broker, place).map(({ body }) => JSON.parse(body) as unknown)

describe('the destination', () => {
  for (const { name, run } of conformance) test(name, async ({ broker }) => run(await inKafka(broker)))
})

test('a relay publishes by type with the key, the headers and the id, and asks for the confirm of all replicas', async ({
  sluice,
  queue,
  broker,
}) => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  const terms = { type: 'mail', orderingKey: 'foobar', headers: { traceparent } }
  const [id] = await put(sluice, queue, [{ name: 'é' }], terms)
  const to = kafka({ servers: serversOf(broker), topic: ({ message }) => message.type ?? 'orders' })
  expect((await sluice.relay(queue, { to }).runOnce()).counts.acked).toBe(1)
  // Other clients hash this key to 1,357,151,166, and so to the partition 6 of 10.
  const [record] = broker.stored.get('mail:6') ?? []
  expect(String(record?.key)).toBe('foobar')
  const [stored] = publishedIn(broker, 'mail:6')
  expect(JSON.parse(stored?.body ?? '')).toEqual({ name: 'é' })
  expect(stored?.headers).toMatchObject({ traceparent, 'sluice-type': 'mail' })
  expect(stored?.id).toMatch(new RegExp(`^[-0-9a-f]{36}/${id}$`))
  expect(broker.acks).toEqual([-1])
})

test.for([
  ['CORRUPT_MESSAGE', 'dead'],
  ['MESSAGE_TOO_LARGE', 'dead'],
  ['RECORD_LIST_TOO_LARGE', 'dead'],
  ['INVALID_RECORD', 'dead'],
  ['TOPIC_AUTHORIZATION_FAILED', 'released'],
  ['POLICY_VIOLATION', 'retried'],
  ['UNKNOWN_TOPIC_OR_PARTITION', 'released'],
  ['NOT_LEADER_OR_FOLLOWER', 'released'],
  ['REQUEST_TIMED_OUT', 'released'],
  ['NOT_ENOUGH_REPLICAS', 'released'],
  ['NOT_ENOUGH_REPLICAS_AFTER_APPEND', 'released'],
  ['KAFKA_STORAGE_ERROR', 'released'],
  ['UNKNOWN_SERVER_ERROR', 'released'],
] as const)(
  'a message is %s: it is %s, and the other partitions have stored theirs',
  async ([error, becomes], { sluice, queue, database, broker }) => {
    await put(sluice, queue, ['bad'], { orderingKey: 'foobar' })
    await put(sluice, queue, ['good'], { orderingKey: '21' })
    broker.answer = (_, partition) => (partition === 6 ? error : 'NONE')
    const to = kafka({ servers: serversOf(broker), topic: 'mail' })
    const { counts } = await sluice.relay(queue, { to, retry: IN_AN_HOUR }).runOnce()
    const [dead, retried] = [becomes === 'dead' ? 1 : 0, becomes === 'retried' ? 1 : 0]
    expect(counts).toMatchObject({ acked: 1, dead, retried })
    expect(broker.stored.has('mail:6')).toBe(false)
    const left = becomes === 'dead' ? [] : [{ payload: 'bad', attempt: retried }]
    expect(await database.sql(ATTEMPTS, [queue])).toEqual(left)
  },
)

test('a relay that connects while a partition has no leader publishes to the others, and keeps the order of its keys', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  // The keys go to the partitions 6 and 3.
  for (const partition of [0, 6]) broker.leaderless.add(`mail:${partition}`)
  await put(sluice, queue, [1, 2], { orderingKey: 'foobar' })
  await put(sluice, queue, [3, 4], { orderingKey: 'd' })
  await put(sluice, queue, [5])
  const to = kafka({ servers: serversOf(broker), topic: 'mail' })
  const running = sluice.relay(queue, { to, concurrency: 1, breaker: QUICK }).start()
  const left = () => database.sql(ATTEMPTS, [queue])
  await waitFor(async () => (await left()).length === 2, { what: 'the messages of the other partitions' })
  expect(await left()).toEqual([1, 2].map((payload) => ({ payload, attempt: 0 })))
  expect(bodiesIn(broker, 'mail:3')).toEqual([3, 4])
  broker.leaderless.clear()
  await put(sluice, queue, [6], { orderingKey: 'foobar' })
  await untilEmpty(database, queue)
  await running.drain()
  expect(bodiesIn(broker, 'mail:6')).toEqual([1, 2, 6])
})

test('what a partition gets in one request is less than a topic takes, unless a message is larger', async ({
  sluice,
  queue,
  broker,
}) => {
  const sizes: (readonly number[])[] = []
  broker.answer = (_, __, records) => {
    sizes.push(records.map(({ value }) => Math.round((value?.length ?? 0) / 100_000)))
    return 'NONE'
  }
  await put(
    sluice,
    queue,
    [4, 4, 4, 10, 1, 1].map((n) => 'x'.repeat(n * 100_000)),
  )
  const to = kafka({ servers: serversOf(broker), topic: 'orders' })
  expect((await sluice.relay(queue, { to, concurrency: 1 }).runOnce()).counts.acked).toBe(6)
  expect(sizes).toEqual([[4, 4], [4], [10], [1, 1]])
})

test('an unknown topic fails its own messages alone', async ({ database, sluice, queue, broker }) => {
  await put(sluice, queue, ['nowhere:1', 'mail:1', 'orders:1'])
  const to = kafka({ servers: serversOf(broker), topic: byPayload })
  const relay = sluice.relay(queue, { to, retry: IN_AN_HOUR })
  expect((await relay.runOnce()).counts).toMatchObject({ acked: 2, retried: 1 })
  const [left] = await database.sql('SELECT payload, attempt, last_error FROM sluice.message WHERE queue = $1', [queue])
  const last_error = 'topic "nowhere": Unknown topic nowhere. Make it, or correct the option topic'
  expect(left).toEqual({ payload: 'nowhere:1', attempt: 1, last_error })
})

test('a missing topic is named, and the relay goes on when it has been made', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await put(sluice, queue, [1])
  const to = kafka({ servers: serversOf(broker), topic: 'shop' })
  const running = sluice.relay(queue, { to, breaker: QUICK }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({
    destination: 'kafka',
    cause: 'settings',
    error: 'Unknown topic shop. Make it, or correct the option topic',
  })
  broker.topics.set('shop', 1)
  await untilEmpty(database, queue)
  await running.drain()
  expect(bodiesIn(broker, 'shop:0')).toEqual([1])
})

test('a topic of all messages that is closed to the login is a setting, and counts no attempt', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  broker.answer = () => 'TOPIC_AUTHORIZATION_FAILED'
  await put(sluice, queue, [1])
  const to = kafka({ servers: serversOf(broker), topic: 'orders' })
  const running = sluice.relay(queue, { to, breaker: QUICK }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({
    cause: 'settings',
    error: expect.stringMatching(/^topic "orders": TOPIC_AUTHORIZATION_FAILED: .*\. Permit it to the login/),
  })
  expect(await database.sql(ATTEMPTS, [queue])).toEqual([{ payload: 1, attempt: 0 }])
  broker.answer = () => 'NONE'
  await untilEmpty(database, queue)
  await running.drain()
})

test.for([
  ['login', 'SASL_AUTHENTICATION_FAILED'],
  ['describe topics', 'TOPIC_AUTHORIZATION_FAILED'],
] as const)('what the login may not do is a setting: %s', async ([request, error], { sluice, queue, log, broker }) => {
  const sasl = { mechanism: 'PLAIN', username: 'shop', password: 'secret' } as const
  broker.refusals.set(request, error)
  await put(sluice, queue, [1])
  const to = kafka({ servers: serversOf(broker), topic: 'orders', connection: { sasl } })
  await sluice.relay(queue, { to }).runOnce()
  expect(log.of('relay.unavailable')).toMatchObject([{ cause: 'settings', error: expect.stringContaining(error) }])
  broker.refusals.clear()
  expect((await sluice.relay(queue, { to }).runOnce()).counts.acked).toBe(1)
})

test('a server that does not answer costs no attempts, and the order of a key holds', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await put(sluice, queue, [1, 2, 3, 4], { orderingKey: 'a' })
  broker.answers = false
  const to = kafka({ servers: serversOf(broker), topic: 'orders' })
  const running = sluice.relay(queue, { to, breaker: QUICK, confirmTimeout: '200ms' }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({ cause: 'outage', error: 'no confirm in time' })
  expect(await database.sql(ATTEMPTS, [queue])).toEqual([1, 2, 3, 4].map((payload) => ({ payload, attempt: 0 })))
  broker.answers = true
  await untilEmpty(database, queue)
  await running.drain()
  // A request that came too late to be answered may be stored beside its repetition, and never before what comes first.
  expect([...new Set(bodiesIn(broker, 'orders:0'))]).toEqual([1, 2, 3, 4])
})

test('the messages without a key of one call go to one partition, in their order', async ({
  sluice,
  queue,
  broker,
}) => {
  const sent = Array.from({ length: 40 }, (_, n) => n)
  await put(sluice, queue, sent)
  const to = kafka({ servers: serversOf(broker), topic: 'mail' })
  await sluice.relay(queue, { to, batchSize: 20, concurrency: 1 }).runOnce()
  expect([...broker.stored.keys()].toSorted()).toEqual(['mail:0', 'mail:1'])
  expect([...bodiesIn(broker, 'mail:0'), ...bodiesIn(broker, 'mail:1')]).toEqual(sent)
})

test('a name that is no topic, and a header that could pass for the id, are refused', async ({
  database,
  sluice,
  queue,
  broker,
}) => {
  await put(sluice, queue, ['a b:1', '..:1'])
  await put(sluice, queue, ['mail:1'], { headers: { id: 'mine' } })
  await sluice.relay(queue, { to: kafka({ servers: serversOf(broker), topic: byPayload }) }).runOnce()
  const dead = await database.sql<{ reason: string }>(
    'SELECT reason FROM sluice.dead_letters WHERE queue = $1 ORDER BY id',
    [queue],
  )
  const name = 'kafka.topic: expected the name of a topic, of 1 to 249 letters, digits, dots, - and _'
  expect(dead.map(({ reason }) => reason)).toEqual([
    `${name}, received "a b"`,
    `${name}, received ".."`,
    'header "id": expected another name, because the id has this one',
  ])
  expect(await payloadsOf(database, queue)).toEqual([])
})

test('options that make no sense are refused by name', () => {
  expect(() => kafka({ servers: [], topic: 'a' })).toThrow('kafka.servers: expected one or more addresses')
  expect(() => kafka({ servers: ['a:9092', ''], topic: 'a' })).toThrow('kafka.servers')
  expect(() => kafka({ servers: 'a:9092', topic: 'a b' })).toThrow('kafka.topic: expected the name of a topic')
  expect(() => kafka({ servers: 'a:9092', topic: 'a', acks: 1 } as never)).toThrow('kafka: expected only the options')
})

async function inKafka(broker: FakeKafka): Promise<ConformanceSubject> {
  const way = await TcpRelay.start()
  onTestFinished(() => way.stop())
  way.pointTo(broker.port)
  broker.advertisedPort = way.port
  broker.answer = (_, __, records) =>
    records.some(({ value }) => (value?.length ?? 0) > 10_000) ? 'MESSAGE_TOO_LARGE' : 'NONE'
  return {
    to: kafka({ servers: `127.0.0.1:${way.port}`, topic: 'orders' }),
    stored: async () => publishedIn(broker, 'orders:0'),
    cutOff: async () => {
      way.pointTo(undefined)
      way.cut()
      return async () => way.pointTo(broker.port)
    },
    spoil: (message) => ({ ...message, body: new Uint8Array(30_000) }),
  }
}
