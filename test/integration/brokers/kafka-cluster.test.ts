import { Producer } from '@platformatic/kafka'
import { describe, expect, vi } from 'vitest'
import { fromKafka } from '../../../src/kafka/from-kafka.ts'
import { kafka } from '../../../src/kafka/kafka.ts'
import { type ConformanceSubject, conformance } from '../../../src/testing/conformance.ts'
import {
  type MessageToPublish,
  type ReceiverSubject,
  receiverConformance,
} from '../../../src/testing/receiver-conformance.ts'
import { numbers, soon, take } from '../../support/inboxes.ts'
import { produce, recordsOf } from '../../support/servers/kcat.ts'
import { type MockKafka, test } from '../../support/servers/mock-kafka.ts'
import { put } from '../../support/sluice.ts'

const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const
const LARGE = JSON.stringify('x'.repeat(100_000))

// All side by side: the mock cluster lets the first member of a group wait for three seconds.
vi.setConfig({ maxConcurrency: 30 })

describe.concurrent('in three servers of librdkafka', () => {
  describe('the receiver', () => {
    for (const { name, run } of receiverConformance) test(name, async ({ cluster }) => run(await receiverIn(cluster)))
  })

  describe('the destination', () => {
    for (const { name, run } of conformance) test(name, async ({ cluster }) => run(await destinationIn(cluster)))
  })

  test('an inbox reads what another client has written, with each compression', async ({ cluster }) => {
    await cluster.addTopic('orders', 1)
    for (const codec of CODECS)
      await produce(
        cluster,
        'orders',
        [`grüße=${codec}`, `é=${LARGE}`, `gone=`],
        ['-z', codec, '-Z', '-H', `h=${codec}`],
      )
    const connection = await fromOrders(cluster).open(soon())
    const received = await take(connection, 3 * CODECS.length)
    await connection.close()
    const of = (h: string) => [
      { body: h, orderingKey: 'grüße', headers: { h } },
      { body: LARGE, orderingKey: 'é', headers: { h } },
      { body: 'null', orderingKey: 'gone', headers: { h } },
    ]
    const texts = received.map(({ body, orderingKey, headers }) => ({ body: String(body), orderingKey, headers }))
    expect(texts).toEqual(CODECS.flatMap(of))
    expect(received.map(({ id }) => id)).toEqual(numbers(3 * CODECS.length).map((n) => `orders/0/${n}`))
  })
})

test('another client puts each key into the same partition as a relay', async ({ sluice, queue, cluster }) => {
  for (const topic of ['ours', 'theirs']) await cluster.addTopic(topic, 7)
  const keys = [...numbers(60).map((n) => `key ${n}`), 'grüße', '\u{1f30a}', 'a'.repeat(255), ' ', '21']
  for (const orderingKey of keys) await put(sluice, queue, [orderingKey], { orderingKey })
  const relay = sluice.relay(queue, { to: kafka({ servers: cluster.servers, topic: 'ours' }) })
  expect((await relay.runOnce()).counts.acked).toBe(keys.length)
  const lines = keys.map((key) => `${key}=${JSON.stringify(key)}`)
  await produce(cluster, 'theirs', lines)
  const placesIn = async (topic: string) =>
    (await recordsOf(cluster, topic)).map(({ partition, key, payload }) => `${partition} ${key}=${payload}`).toSorted()
  expect(await placesIn('ours')).toEqual(await placesIn('theirs'))
})

test.for(CODECS)(
  'another client reads what a relay has written with the compression %s',
  async (compression, { sluice, queue, cluster }) => {
    await cluster.addTopic('orders', 1)
    const options = { orderingKey: 'grüße', headers: { tracestate: 'a=b' } }
    await put(sluice, queue, [{ name: 'é' }, 'x'.repeat(100_000)], options)
    const to = kafka({ servers: cluster.servers, topic: 'orders', connection: { compression } })
    expect((await sluice.relay(queue, { to }).runOnce()).counts.acked).toBe(2)
    const records = await recordsOf(cluster, 'orders')
    expect(records.map(({ payload }) => payload)).toEqual(['{"name": "é"}', LARGE])
    const headers: unknown = expect.objectContaining({ tracestate: 'a=b', 'sluice-queue': queue })
    for (const record of records) expect(record).toMatchObject({ key: 'grüße', headers })
  },
)

function fromOrders({ servers }: MockKafka) {
  return fromKafka({ servers, topic: 'orders', group: 'billing', sessionTimeout: '3s' })
}

async function receiverIn(cluster: MockKafka): Promise<ReceiverSubject> {
  await cluster.addTopic('orders', 1)
  return {
    from: fromOrders(cluster),
    publish: (messages) => publishTo(cluster, messages),
    cutOff: () => cluster.cutOff(),
  }
}

async function publishTo({ servers }: MockKafka, messages: readonly MessageToPublish[]): Promise<void> {
  const producer = new Producer({ clientId: 'test', bootstrapBrokers: [...servers] })
  const records = messages.map(({ id, body, headers }) => {
    const pairs = Object.entries({ ...headers, id }).map(
      ([name, text]) => [Buffer.from(name), Buffer.from(text)] as const,
    )
    return { topic: 'orders', value: Buffer.from(body), headers: new Map(pairs) }
  })
  await producer.send({ messages: records })
  await producer.close()
}

/** What would be spoilt goes to a topic that is closed to the login: the mock cluster refuses no record. */
async function destinationIn(cluster: MockKafka): Promise<ConformanceSubject> {
  await cluster.addTopic('orders', 1)
  await cluster.addTopic('closed', 1)
  await cluster.spoilTopic('closed', 'TOPIC_AUTHORIZATION_FAILED')
  return {
    to: kafka({ servers: cluster.servers, topic: ({ body }) => (body.byteLength > 10_000 ? 'closed' : 'orders') }),
    stored: async () => {
      const records = await recordsOf(cluster, 'orders')
      return records.map(({ payload, headers }) => ({ id: headers.id ?? '', body: payload ?? '', headers }))
    },
    cutOff: () => cluster.cutOff(),
    spoil: (message) => ({ ...message, body: new Uint8Array(30_000) }),
  }
}
