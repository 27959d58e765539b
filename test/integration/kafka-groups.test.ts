import { Producer } from '@platformatic/kafka'
import { expect, type TestContext } from 'vitest'
import { pause } from '../../src/basics/pause.ts'
import type { RunningInbox } from '../../src/index.ts'
import { fromKafka } from '../../src/kafka/from-kafka.ts'
import { createSluice } from '../../src/sluice.ts'
import { numbers, QUICK, soon } from '../support/inboxes.ts'
import { KafkaInboxProcess } from '../support/processes/kafka-inbox-process.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { KafkaMember } from '../support/servers/kcat.ts'
import { type MockKafka, test } from '../support/servers/mock-kafka.ts'
import { slowLeaders } from '../support/servers/slow-leader.ts'
import { waitFor } from '../support/wait.ts'

slowLeaders()

const KEYS = 12
// The mock cluster lets the first member of a group wait for three seconds, and each rebalance take a second less than the session.
const optionsOf = ({ servers }: MockKafka) =>
  ({ servers, topic: 'orders', group: 'billing', sessionTimeout: '3500ms' }) as const

/** Numbers that are written to the topic, the key of each by turns. */
class Flow {
  given = 0
  readonly #producer: Producer<Buffer, Buffer, Buffer, Buffer>

  constructor({ servers }: MockKafka) {
    this.#producer = new Producer({ clientId: 'test', bootstrapBrokers: [...servers] })
  }

  async give(count: number): Promise<void> {
    const messages = numbers(count, this.given).map((n) => {
      return { topic: 'orders', key: Buffer.from(`key ${n % KEYS}`), value: Buffer.from(String(n)) }
    })
    this.given += count
    await this.#producer.send({ messages })
  }

  /** Gives some again and again until something has come about. */
  async until(what: string, condition: () => boolean): Promise<void> {
    await waitFor(
      async () => {
        await this.give(KEYS)
        await pause(50)
        return condition()
      },
      { what },
    )
  }

  async stop(): Promise<void> {
    await this.#producer.close(true)
  }
}

/** Waits until all numbers are in a queue, and expects each of them once, and those of a key in their order. */
async function expectAllIn(database: TestDatabase, queue: string, { given }: Flow): Promise<void> {
  const stored = async () => {
    const rows = await database.sql<{ payload: number }>(
      'SELECT payload FROM sluice.message WHERE queue = $1 ORDER BY id',
      [queue],
    )
    return rows.map(({ payload }) => payload)
  }
  await waitFor(async () => (await stored()).length >= given, { what: 'all messages' })
  const payloads = await stored()
  for (const key of numbers(KEYS)) {
    const ofKey = (all: readonly number[]) => all.filter((n) => n % KEYS === key)
    expect(ofKey(payloads)).toEqual(ofKey(numbers(given)))
  }
}

/** An inbox of a process of its own, as far as Kafka and the database know. */
function startInbox(
  database: TestDatabase,
  queue: string,
  cluster: MockKafka,
  onTestFinished: TestContext['onTestFinished'],
): RunningInbox {
  const sluice = createSluice({ connection: database.url, log: false })
  onTestFinished(() => sluice.stop({ timeout: 0 }))
  return sluice.inbox(queue, { from: fromKafka(optionsOf(cluster)), batchSize: 10, breaker: QUICK }).start()
}

async function begun(cluster: MockKafka, onTestFinished: TestContext['onTestFinished']): Promise<Flow> {
  await cluster.addTopic('orders', 6)
  await cluster.coordinate('billing', 1)
  const flow = new Flow(cluster)
  onTestFinished(() => flow.stop())
  return flow
}

test.concurrent('processes that come and leave while messages flow enqueue each once, in the order of its key', async ({
  database,
  cluster,
  onTestFinished,
}) => {
  const flow = await begun(cluster, onTestFinished)
  const [first, second] = [1, 2].map(() => startInbox(database, 'come', cluster, onTestFinished))
  await flow.until('messages of two', () => [first, second].every((one) => (one?.statistics().enqueued ?? 0) > 0))
  const third = startInbox(database, 'come', cluster, onTestFinished)
  await flow.until('messages of the third', () => third.statistics().enqueued > 20)
  await first?.drain()
  const before = third.statistics().enqueued
  await flow.until('more of the third', () => third.statistics().enqueued > before + 20)
  await expectAllIn(database, 'come', flow)
  await Promise.all([second?.drain(), third.drain()])
})

test.concurrent('what a killed process had comes to another, and each message is enqueued once, in the order of its key', async ({
  database,
  cluster,
  onTestFinished,
}) => {
  const flow = await begun(cluster, onTestFinished)
  const first = startInbox(database, 'kill', cluster, onTestFinished)
  const other = new KafkaInboxProcess({ url: database.url, queue: 'kill', from: optionsOf(cluster) })
  onTestFinished(() => other.kill())
  await flow.until('messages of both', () => other.enqueued > 0 && first.statistics().enqueued > 0)
  await flow.give(60)
  await other.kill()
  await flow.give(60)
  await expectAllIn(database, 'kill', flow)
  await first.drain()
})

test.concurrent.for(['follows', 'leads'] as const)(
  'a member of librdkafka that %s shares a topic with an inbox, and leaves it what it has not received',
  async (does, { cluster, onTestFinished }) => {
    const flow = await begun(cluster, onTestFinished)
    // The cluster has the first member lead, and refuses who asks for its share behind the leader: that one gets its answer late.
    if (does === 'leads') await cluster.delayJoin(1, 1_000)
    const join = () => fromKafka(optionsOf(cluster)).open(soon())
    const first = does === 'leads' ? undefined : await join()
    const theirs = new KafkaMember(cluster, 'billing', 'orders')
    onTestFinished(() => theirs.kill())
    if (does === 'leads') await theirs.joins()
    const connection = first ?? (await join())
    onTestFinished(() => connection.close())
    const ours = new Set<string>()
    const receive = async () => {
      const messages = await connection.receive(100, AbortSignal.timeout(500))
      for (const { id = '' } of messages) ours.add(id)
      await connection.ack(messages)
    }
    const bothHaveSome = async () => {
      await Promise.all([flow.give(KEYS), receive()])
      return theirs.received.length > 0 && ours.size > 0
    }
    await waitFor(bothHaveSome, { what: 'messages of both' })
    const have = async () => {
      await receive()
      return new Set([...ours, ...theirs.received]).size === flow.given
    }
    // A kcat that is ended commits the offset of a message that it was about to print.
    await waitFor(have, { what: 'all messages' })
    await theirs.leave()
    await flow.give(KEYS)
    await waitFor(have, { what: 'the later messages' })
  },
)
