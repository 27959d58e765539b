import { Producer } from '@platformatic/kafka'
import { expect, type TestContext } from 'vitest'
import type { RunningInbox } from '../../../src/index.ts'
import { fromKafka } from '../../../src/kafka/from-kafka.ts'
import { createSluice } from '../../../src/sluice.ts'
import { numbers, QUICK, soon } from '../../support/inboxes.ts'
import { KafkaInboxProcess } from '../../support/processes/kafka-inbox-process.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { KafkaMember } from '../../support/servers/kcat.ts'
import { type MockKafka, test } from '../../support/servers/mock-kafka.ts'
import { slowLeaders } from '../../support/servers/slow-leader.ts'
import { waitFor } from '../../support/wait.ts'

const slowLeadersOf = slowLeaders()

const KEYS = 12
/** Some are under way whenever the group shares out anew. */
const MOST_UNDER_WAY = 10 * KEYS
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

  /** Gives some again and again until something has come about, as long as not too many are under way. */
  async until(what: string, stored: () => Promise<readonly number[]>, condition: () => boolean): Promise<void> {
    await waitFor(
      async () => {
        if (this.given - (await stored()).length < MOST_UNDER_WAY) await this.give(KEYS)
        return condition()
      },
      { what },
    )
  }

  async stop(): Promise<void> {
    await this.#producer.close(true)
  }
}

/** What a queue has, in its order. */
function storedIn(database: TestDatabase, queue: string): () => Promise<readonly number[]> {
  return async () => {
    const rows = await database.sql<{ payload: number }>(
      'SELECT payload FROM sluice.message WHERE queue = $1 ORDER BY id',
      [queue],
    )
    return rows.map(({ payload }) => payload)
  }
}

/** Waits until all numbers are stored, and expects each of them once, and those of a key in their order. */
async function expectAllIn(stored: () => Promise<readonly number[]>, { given }: Flow): Promise<void> {
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
  slowLeadersOf(cluster)
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
  const stored = storedIn(database, 'come')
  const [first, second] = [1, 2].map(() => startInbox(database, 'come', cluster, onTestFinished))
  await flow.until('messages of two', stored, () =>
    [first, second].every((one) => (one?.statistics().enqueued ?? 0) > 0),
  )
  const third = startInbox(database, 'come', cluster, onTestFinished)
  await flow.until('messages of the third', stored, () => third.statistics().enqueued > 20)
  await first?.drain()
  const before = third.statistics().enqueued
  await flow.until('more of the third', stored, () => third.statistics().enqueued > before + 20)
  await expectAllIn(stored, flow)
  await Promise.all([second?.drain(), third.drain()])
})

test.concurrent('what a killed process had comes to another, and each message is enqueued once, in the order of its key', async ({
  database,
  cluster,
  onTestFinished,
}) => {
  const flow = await begun(cluster, onTestFinished)
  const stored = storedIn(database, 'kill')
  const first = startInbox(database, 'kill', cluster, onTestFinished)
  // The cluster has the first member lead: the other process waits for nobody.
  await cluster.group.until(() => cluster.group.joined > 0)
  const other = new KafkaInboxProcess({ url: database.url, queue: 'kill', from: optionsOf(cluster) })
  onTestFinished(() => other.kill())
  await flow.until('messages of both', stored, () => other.enqueued > 0 && first.statistics().enqueued > 0)
  await flow.give(60)
  await other.kill()
  await flow.give(60)
  await expectAllIn(stored, flow)
  await first.drain()
})

test.concurrent.for(['follows', 'leads'] as const)(
  'a member of librdkafka that %s shares a topic with an inbox, and leaves it what it has not received',
  async (does, { cluster, onTestFinished }) => {
    const flow = await begun(cluster, onTestFinished)
    const join = () => fromKafka(optionsOf(cluster)).open(soon())
    const first = does === 'leads' ? undefined : await join()
    const theirs = new KafkaMember(cluster, 'billing', 'orders')
    onTestFinished(() => theirs.kill())
    if (does === 'leads') {
      // The cluster has the first member lead.
      await cluster.group.until(() => cluster.group.joined > 0)
      onTestFinished(cluster.group.listen(() => theirs.hold(cluster.group.isTooEarlyForLeader)))
    }
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
