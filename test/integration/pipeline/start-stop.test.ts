import { Socket } from 'node:net'
import { expect } from 'vitest'
import { createSluice } from '../../../src/index.ts'
import { EventLog } from '../../support/event-log.ts'
import { payloadsOf, unlockedPayloads, untilEmpty } from '../../support/rows/rows.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { untilSessions } from '../../support/servers/sessions.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

test('a stop keeps the siblings that were done, and leaves no trace of the one in hand', async ({
  database,
  sluice,
  queue,
}) => {
  await put(sluice, queue, [1, 2])
  const steps = new Steps()
  const subscription = sluice.pipeline(queue).handle(steps.handle).subscribe()
  await steps.endNext()
  const { context } = await steps.next()
  await context.tx.query('CREATE TABLE never_seen (x integer)')

  await subscription.stop()
  await subscription.stop()

  expect(await payloadsOf(database, queue)).toEqual([2])
  expect(await database.sql(`SELECT to_regclass('never_seen') AS table`)).toEqual([{ table: null }])
})

test('a worker says at once what it consumes, not only with its first poll', async ({ database, queue }) => {
  const sluice = startTestSluice(database, { name: queue, pollInterval: 60_000 })
  const handle = (name: string) => sluice.pipeline(name).handle(() => undefined)
  for (const name of [queue, `${queue}.other`]) handle(name).subscribe()
  const queuesOf = async () =>
    (await database.sql('SELECT queues FROM sluice.workers WHERE name = $1', [queue]))[0]?.queues
  await waitFor(async () => (await queuesOf())?.length === 2, { what: 'both queues' })
  expect(await queuesOf()).toEqual([queue, `${queue}.other`])
  handle(`${queue}.late`).subscribe()
  await waitFor(async () => (await queuesOf())?.length === 3, { what: 'the third queue' })
})

test('stop closes every connection, in the middle of work too', async ({ database, queue }) => {
  const sluice = createSluice({ connection: database.url })
  await put(sluice, queue, [1, 2, 3])
  const steps = new Steps()
  sluice.pipeline(queue, { concurrency: 2, batchSize: 1 }).handle(steps.handle).subscribe()
  sluice.deliveries(`${queue}.other`, { demand: 2 }).subscribe()
  await steps.next()
  await steps.next()

  await sluice.stop({ timeout: 0 })

  for (const name of ['sluice', 'sluice control', 'sluice listener']) await untilSessions(database, name, 0)
  expect(await unlockedPayloads(database, queue)).toEqual([1, 2, 3])
  expect(await database.sql('SELECT FROM sluice.worker')).toEqual([])
})

test('a stop deletes the worker, although its control connection waits for its next attempt', async ({
  database,
  queue,
}) => {
  const proxy = await startProxy(database.url)
  const sluice = startTestSluice(database, { directConnection: proxy.url, name: queue })
  const log = new EventLog(sluice.events)
  sluice
    .pipeline(queue)
    .handle(() => undefined)
    .subscribe()
  await log.first('worker.started')
  proxy.refusing = true
  proxy.cut()
  // After this many refusals the next attempt is at least 400 ms away.
  await waitFor(() => proxy.accepted >= 14, { what: 'long waits of the control and the listener connection' })
  proxy.heal()
  await sluice.stop()
  expect(await database.sql('SELECT FROM sluice.worker WHERE name = $1', [queue])).toEqual([])
  await untilSessions(database, 'sluice control', 0)
})

test('a stream of the configuration is made of what the driver gives', async ({ database, queue }) => {
  const seen: unknown[] = []
  const stream = (given?: object) => {
    seen.push(given)
    return new Socket()
  }
  const sluice = startTestSluice(database, { connection: { connectionString: database.url, stream } })
  sluice
    .pipeline(queue)
    .handle(() => undefined)
    .subscribe()
  await put(sluice, queue, [1])
  await untilEmpty(database, queue)
  await untilSessions(database, 'sluice listener', 1)
  expect(seen.length).toBeGreaterThanOrEqual(3)
  for (const given of seen) expect(given).toHaveProperty('keepAlive')
})

test('a server that cannot be reached shows within the connect timeout', async () => {
  const sluice = createSluice({ connection: 'postgres://nobody:secret@127.0.0.1:1/none', connectTimeout: 300 })

  const started = sluice.start()
  await expect(started).rejects.toMatchObject({ code: 'UNREACHABLE' })
  await expect(started).rejects.not.toThrow('secret')
  await sluice.stop()
})

test('a database that takes no writes says so to claims and enqueues', async ({ database, queue }) => {
  const connection = { connectionString: database.url, options: '-c default_transaction_read_only=on' }
  const sluice = startTestSluice(database, { connection })
  const refusal = { code: 'UNREACHABLE', message: expect.stringContaining('default_transaction_read_only') }
  await expect(sluice.claim(queue)).rejects.toMatchObject(refusal)
  await expect(put(sluice, queue, [1])).rejects.toMatchObject(refusal)
})

test('a worker that has never started is not said to have stopped', async () => {
  const sluice = createSluice({ connection: 'postgres://nobody:secret@127.0.0.1:1/none' })
  const log = new EventLog(sluice.events)
  const started = sluice.start()
  const stopped = sluice.stop()
  await expect(started).rejects.toMatchObject({ code: 'UNREACHABLE' })
  await stopped
  expect([log.of('worker.started'), log.of('worker.stopped')]).toEqual([[], []])
})

test('a database without the schema is refused with the command to run', async () => {
  await using bare = await createTestDatabase({ migrated: false })
  const sluice = createSluice({ connection: bare.url })
  await expect(
    sluice
      .pipeline('q')
      .handle(() => undefined)
      .subscribe().ended,
  ).rejects.toThrow('npx sluice migrate')
  await sluice.migrate()
  await sluice.start()
  await sluice.stop()
})

test('P1: pipelines resume by themselves when the server ends all their sessions, again and again', async ({
  database,
  sluice,
  queue,
}) => {
  await database.sql('CREATE TABLE resumed (id bigint)')
  const ids = await put(
    sluice,
    queue,
    Array.from({ length: 300 }, (_, n) => n),
  )
  sluice
    .pipeline(queue, { concurrency: 3, batchSize: 5 })
    .handle(async (message, { tx }) => {
      await tx.query('INSERT INTO resumed VALUES ($1)', [message.id])
    })
    .subscribe()

  for (let round = 1; round <= 5; round++) {
    const seen = async () => (await database.sql('SELECT FROM resumed')).length
    await waitFor(async () => (await seen()) >= Math.min(round * 40, 300), {
      what: `round ${round}`,
    })
    await database.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sluice%' AND datname = current_database()`,
    )
  }
  await untilEmpty(database, queue)

  const effects = await database.sql<{ id: string }>('SELECT id::text FROM resumed ORDER BY resumed.id')
  expect(effects.map(({ id }) => id)).toEqual(ids)
})

test('start after stop says STOPPED, and registers nobody', async ({ database }) => {
  const sluice = createSluice({ connection: database.url, name: 'stopped before' })
  await sluice.stop()
  await expect(sluice.start()).rejects.toMatchObject({ code: 'STOPPED' })
  expect(await database.sql(`SELECT FROM sluice.worker WHERE name = 'stopped before'`)).toEqual([])
})

test('stop can be called twice at once, and again: all calls wait for the same end', async ({ database, queue }) => {
  const sluice = createSluice({ connection: database.url, name: 'stopped twice' })
  await put(sluice, queue, [1])
  const steps = new Steps()
  sluice.pipeline(queue).handle(steps.handle).subscribe()
  const step = await steps.next()
  const stopping = [sluice.stop(), sluice.stop()]
  step.end()
  await Promise.all(stopping)
  await sluice.stop()
  expect(await payloadsOf(database, queue)).toEqual([])
  expect(await database.sql(`SELECT FROM sluice.worker WHERE name = 'stopped twice'`)).toEqual([])
})

test('a second stop with a shorter timeout ends the drain of the first', async ({ database, queue }) => {
  const sluice = createSluice({ connection: database.url })
  await put(sluice, queue, [1])
  const steps = new Steps()
  sluice.pipeline(queue).handle(steps.handle).subscribe()
  await steps.next()
  const patient = sluice.stop({ timeout: '1h' })
  await sluice.stop({ timeout: 0 })
  await patient
  expect(await unlockedPayloads(database, queue)).toEqual([1])
})

test('nothing starts any more once stop() has been called, and handlers in hand may still enqueue', async ({
  database,
  queue,
}) => {
  const sluice = createSluice({ connection: database.url, name: 'no ghost' })
  await put(sluice, queue, [1])
  const steps = new Steps()
  sluice.pipeline(queue).handle(steps.handle).subscribe()
  const step = await steps.next()

  const stopped = sluice.stop()

  const { ended: closed } = sluice.pipeline(queue).handle(steps.handle).subscribe()
  const refused = [sluice.start(), closed, sluice.pipeline(queue).handle(steps.handle).runOnce()]
  for (const { status, ...result } of await Promise.allSettled(refused)) {
    expect(status).toBe('rejected')
    expect(result).toMatchObject({ reason: { code: 'STOPPED' } })
  }
  await put(sluice, `${queue}.next`, [2])
  step.end()
  await stopped
  expect(await payloadsOf(database, `${queue}.next`)).toEqual([2])
  await expect(put(sluice, queue, [3])).rejects.toMatchObject({ code: 'STOPPED' })
  expect(await database.sql(`SELECT FROM sluice.worker WHERE name = 'no ghost'`)).toEqual([])
})

test('start after an unawaited stop leaves nobody on the books', async ({ database }) => {
  const sluice = createSluice({ connection: database.url, name: 'raced' })
  const stopped = sluice.stop()
  await expect(sluice.start()).rejects.toMatchObject({ code: 'STOPPED' })
  await stopped
  expect(await database.sql(`SELECT FROM sluice.worker WHERE name = 'raced'`)).toEqual([])
})

test('a stop with what it does not take is refused, and does not stop', async ({ sluice, queue }) => {
  const subscription = sluice
    .pipeline(queue)
    .handle(() => undefined)
    .subscribe()
  for (const stop of [sluice.stop.bind(sluice), subscription.stop.bind(subscription)] as ((
    given: unknown,
  ) => Promise<void>)[]) {
    for (const given of [{ timeoutMs: 5_000 }, 5_000, null]) {
      await expect(stop(given)).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    }
  }
  await sluice.start()
})
