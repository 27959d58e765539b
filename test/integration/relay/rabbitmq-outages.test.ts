import { expect, onTestFinished } from 'vitest'
import { fromRabbitmq } from '../../../src/rabbitmq/from-rabbitmq.ts'
import { rabbitmq } from '../../../src/rabbitmq/rabbitmq.ts'
import { soon } from '../../support/inboxes.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { breakingWay } from '../../support/servers/breaking-way.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { onChannel, published, takenFrom, test } from '../../support/servers/rabbitmq.ts'
import { put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const QUICK = { delay: '10ms', maxDelay: '50ms' } as const
const KEYS = Array.from({ length: 10 }, (_, key) => String(key))

/** A destination whose routing keys are names of queues. */
const toQueue = (servers: string, routingKey: string) => rabbitmq({ servers, exchange: '', routingKey })

const attemptsIn = (database: TestDatabase, queue: string) =>
  database.sql('SELECT attempt FROM sluice.message WHERE queue = $1 ORDER BY id', [queue])

test('an exchange that is missing, or is deleted, is named, and the relay goes on when it has been made', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  const makeExchange = () =>
    onChannel(broker, async (channel) => {
      await channel.assertQueue(queue)
      await channel.assertExchange(queue, 'fanout')
      await channel.bindQueue(queue, queue, '')
    })
  const to = rabbitmq({ servers: broker.url, exchange: queue, routingKey: '' })
  // Its queue is bound a moment after it has been made.
  const retry = { kind: 'fixed', delay: '50ms' } as const
  const running = sluice.relay(queue, { to, breaker: QUICK, retry }).start()
  for (const round of [1, 2]) {
    const before = log.of('relay.unavailable').length
    await put(sluice, queue, [round])
    const missing = await waitFor(() => log.of('relay.unavailable')[before], { what: 'a missing exchange' })
    expect(missing).toMatchObject({
      destination: 'rabbitmq',
      cause: 'settings',
      error: expect.stringContaining(`no exchange '${queue}'`),
    })
    await makeExchange()
    await untilEmpty(database, queue)
    await waitFor(() => log.of('relay.available').length === round, { what: `the exchange for the time ${round}` })
    await onChannel(broker, (channel) => channel.deleteExchange(queue))
  }
  await running.drain()
  expect(await takenFrom(broker, queue)).toHaveLength(2)
})

test('messages wait for room in a full queue that refuses new ones, and none counts an attempt', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await onChannel(broker, (channel) => channel.assertQueue(queue, { maxLength: 3, overflow: 'reject-publish' }))
  await put(sluice, queue, [1, 2, 3, 4, 5])
  const running = sluice.relay(queue, { to: toQueue(broker.url, queue), breaker: QUICK }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({
    cause: 'outage',
    error: expect.stringContaining('nacked by the server'),
  })
  expect(await payloadsOf(database, queue)).toEqual([4, 5])
  expect(await attemptsIn(database, queue)).toMatchObject([{ attempt: 0 }, { attempt: 0 }])
  const first = await takenFrom(broker, queue)
  await untilEmpty(database, queue)
  await running.drain()
  const all = [...first, ...(await takenFrom(broker, queue))]
  expect(all.map(({ content }) => content.toString()).toSorted()).toEqual(['1', '2', '3', '4', '5'])
})

test('a server that blocks its publishers is found unavailable at once, and none of the messages is lost', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await onChannel(broker, (channel) => channel.assertQueue(queue))
  await put(sluice, queue, [1, 2, 3])
  onTestFinished(() => broker.beShortOfMemory(false))
  await broker.beShortOfMemory(true)
  // Longer than the test waits: it is not the deadline that ends the wait.
  const terms = { confirmTimeout: '1m', breaker: QUICK } as const
  const running = sluice.relay(queue, { to: toQueue(broker.url, queue), ...terms }).start()
  const { error } = await log.first('relay.unavailable')
  await waitFor(() => log.of('relay.unavailable').length > 2, { what: 'further tries' })
  expect(await attemptsIn(database, queue)).toMatchObject([{ attempt: 0 }, { attempt: 0 }, { attempt: 0 }])
  await broker.beShortOfMemory(false)
  await untilEmpty(database, queue)
  await running.drain()
  expect(error).toBe('connection blocked by the server: low on memory')
  // What the server had received before it blocked, it stores afterwards: copies with the same ids.
  expect(new Set((await takenFrom(broker, queue)).map(({ content }) => content.toString()))).toEqual(
    new Set(['1', '2', '3']),
  )
})

test('a server that is stopped by a signal is unavailable until it goes on', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await onChannel(broker, (channel) => channel.assertQueue(queue))
  const terms = { confirmTimeout: '500ms', breaker: QUICK } as const
  const running = sluice.relay(queue, { to: toQueue(broker.url, queue), ...terms }).start()
  await put(sluice, queue, ['before'])
  await untilEmpty(database, queue)
  onTestFinished(() => broker.thaw())
  broker.freeze()
  await put(sluice, queue, ['meanwhile'])
  await log.first('relay.unavailable', ({ error }) => error === 'no confirm in time')
  // A connection cannot be had either.
  await log.first('relay.unavailable', ({ error }) => error.includes('ETIMEDOUT'))
  broker.thaw()
  await untilEmpty(database, queue)
  await running.drain()
  const stored = (await takenFrom(broker, queue)).map(published)
  expect(new Set(stored.map(({ body }) => body))).toEqual(new Set(['"before"', '"meanwhile"']))
  expect(new Set(stored.map(({ id }) => id)).size).toBe(2)
})

test('a relay with a quorum queue loses nothing when its server is shut down or killed, and each key stays in order', async ({
  database,
  sluice,
  queue,
  log,
  broker,
}) => {
  await onChannel(broker, (channel) => channel.assertQueue(queue, { arguments: { 'x-queue-type': 'quorum' } }))
  const putNumbers = async (from: number, past: number) => {
    const numbers = Array.from({ length: past - from }, (_, n) => from + n)
    for (const key of KEYS) await put(sluice, queue, numbers, { orderingKey: key })
  }
  await putNumbers(0, 50)
  const terms = { batchSize: 20, confirmTimeout: '2s', breaker: QUICK } as const
  const running = sluice.relay(queue, { to: toQueue(broker.url, queue), ...terms }).start()
  await log.first('batch.committed')
  // First of all: if it is killed within seconds of its declaration, RabbitMQ 3.10.8 may lose such a queue for good.
  await broker.restart()
  await putNumbers(50, 99)
  const left = async () => (await payloadsOf(database, queue)).length
  await waitFor(async () => (await left()) < 480, { what: 'some of the second half', timeoutMs: 60_000 })
  await broker.kill()
  await putNumbers(99, 100)
  await broker.run()
  await untilEmpty(database, queue, 60_000)
  await running.drain()
  expect(log.of('relay.unavailable').length).toBeGreaterThan(0)
  const stored = (await takenFrom(broker, queue)).map(published)
  for (const key of KEYS) {
    const ofKey = stored.filter(({ headers }) => headers['sluice-ordering-key'] === key)
    // Of several copies a map has the place of the first.
    const first = new Map(ofKey.map(({ id, body }) => [id, Number(body)]))
    expect([...first.values()]).toEqual(Array.from({ length: 100 }, (_, n) => n))
  }
})

test.for(['relay', 'inbox'] as const)(
  'a server that breaks off at any moment of the opening of a connection is named at once: %s',
  async (kind, { broker, queue }) => {
    await onChannel(broker, (channel) => channel.assertQueue(queue))
    const open = async (address: string) => {
      const servers = `amqp://${address}`
      const to = rabbitmq({ servers, exchange: 'amq.topic', routingKey: queue })
      const connection = await (kind === 'relay' ? to : fromRabbitmq({ servers, queue })).open(soon())
      await connection.close()
    }
    for (let answers = 0; answers < LAST_ANSWER[kind]; answers++) {
      const address = await breakingWay(broker.port, answers)
      await expect(open(address), `after ${answers} answers`).rejects.toThrow(`${address}: read ECONNRESET`)
    }
    await open(await breakingWay(broker.port, LAST_ANSWER[kind]))
  },
)

/** How many there are until the connection is open: three to log in, and of channels, of an exchange or a queue. */
const LAST_ANSWER = { relay: 8, inbox: 5 } as const
