import { Consumer } from '@platformatic/kafka'
import { expect } from 'vitest'
import { fromKafka } from '../../../src/kafka/from-kafka.ts'
import { kafka } from '../../../src/kafka/kafka.ts'
import { createSluice } from '../../../src/sluice.ts'
import { EventLog } from '../../support/event-log.ts'
import { idsOf, numbers, QUICK, soon, take } from '../../support/inboxes.ts'
import { produce } from '../../support/servers/kcat.ts'
import { type MockKafka, test } from '../../support/servers/mock-kafka.ts'
import { put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** A topic with a partition on each of the three servers, and a group on the first one. */
async function withTopic(cluster: MockKafka): Promise<MockKafka> {
  await cluster.addTopic('orders', 3)
  for (const partition of [0, 1, 2]) await cluster.elect('orders', partition, partition + 1)
  await cluster.coordinate('billing', 1)
  return cluster
}

const from = ({ servers }: MockKafka) =>
  fromKafka({ servers, topic: 'orders', group: 'billing', sessionTimeout: '30s' })

/** The ids of so many records in each partition. */
const idsIn = (partitions: readonly number[], first: number, count: number) =>
  partitions.flatMap((partition) => numbers(count, first).map((n) => `orders/${partition}/${n}`))

async function produceIn(cluster: MockKafka, partitions: readonly number[], count: number): Promise<void> {
  for (const partition of partitions)
    await produce(
      cluster,
      'orders',
      numbers(count).map((n) => `k=${n}`),
      ['-p', String(partition)],
    )
}

/** The offsets of the group. */
async function committedIn({ servers }: MockKafka): Promise<readonly bigint[] | undefined> {
  const client = new Consumer({ clientId: 'test', bootstrapBrokers: [...servers], groupId: 'billing' })
  const offsets = await client.listCommittedOffsets({ topics: [{ topic: 'orders', partitions: [0, 1, 2] }] })
  await client.close()
  return offsets.get('orders')
}

test.concurrent('a receiver outlives the election of leaders and of a coordinator: its group does not share out', async ({
  cluster,
}) => {
  await withTopic(cluster)
  await produceIn(cluster, [0, 1, 2], 10)
  const connection = await from(cluster).open(soon())
  const before = await take(connection, 30)
  await cluster.takeDown(1)
  await cluster.elect('orders', 0, 2)
  await cluster.coordinate('billing', 3)
  await connection.ack(before)
  await produceIn(cluster, [0, 1, 2], 5)
  const behind = await take(connection, 15)
  expect(idsOf(behind).toSorted()).toEqual(idsIn([0, 1, 2], 10, 5))
  await connection.ack(behind)
  await cluster.elect('orders', 1, 3)
  await produceIn(cluster, [1], 1)
  expect(idsOf(await take(connection, 1))).toEqual(['orders/1/15'])
  await connection.close()
  expect(await committedIn(cluster)).toEqual([15n, 15n, 15n])
})

test.concurrent('a partition without a leader holds up no other, and goes on when it has one', async ({ cluster }) => {
  await withTopic(cluster)
  await produceIn(cluster, [0, 1, 2], 1)
  const connection = await from(cluster).open(soon())
  await take(connection, 3)
  await produceIn(cluster, [2], 2)
  await cluster.elect('orders', 2, -1)
  await produceIn(cluster, [0, 1], 2)
  const others = await take(connection, 4)
  await cluster.elect('orders', 2, 1)
  const last = await take(connection, 2)
  expect(idsOf(others).toSorted()).toEqual(idsIn([0, 1], 1, 2))
  expect(idsOf(last)).toEqual(idsIn([2], 1, 2))
  await connection.close()
})

test.concurrent('what is enqueued goes through elections and the end of a server to another queue, in order of its key', async ({
  database,
  cluster,
  onTestFinished,
}) => {
  await withTopic(cluster)
  const queue = 'elections'
  const sluice = createSluice({ connection: database.url, log: false })
  onTestFinished(() => sluice.stop({ timeout: 0 }))
  const log = new EventLog(sluice.events)
  const to = kafka({ servers: cluster.servers, topic: 'orders' })
  const relay = sluice.relay(queue, { to, batchSize: 20, breaker: QUICK }).start()
  const inbox = sluice.inbox(`${queue}.in`, { from: from(cluster), batchSize: 20, breaker: QUICK }).start()
  let given = 0
  const pass = async () => {
    for (const n of numbers(60, given)) await put(sluice, queue, [n], { orderingKey: `key ${n % 6}` })
    given += 60
    await waitFor(() => inbox.statistics().enqueued === given, { what: 'all messages in the other queue' })
  }
  await pass()
  await cluster.elect('orders', 0, 2)
  await pass()
  await cluster.takeDown(3)
  await cluster.elect('orders', 2, 1)
  await cluster.coordinate('billing', 2)
  await pass()
  await Promise.all([relay.drain(), inbox.drain()])
  const arrived = 'SELECT payload, ordering_key FROM sluice.message WHERE queue = $1 ORDER BY id'
  const rows = await database.sql<{ payload: number; ordering_key: string }>(arrived, [`${queue}.in`])
  for (const key of numbers(6)) {
    const ofKey = rows.filter(({ ordering_key }) => ordering_key === `key ${key}`).map(({ payload }) => payload)
    expect(ofKey).toEqual(numbers(given).filter((n) => n % 6 === key))
  }
  expect(log.of('inbox.unavailable')).toEqual([])
})
