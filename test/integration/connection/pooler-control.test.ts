import pg from 'pg'
import { describe, expect } from 'vitest'
import type { SluiceOptions } from '../../../src/config.ts'
import { executeOn } from '../../../src/connection/open-client.ts'
import { reapWorkers } from '../../../src/table/worker/reap.ts'
import { createEffects, effectsOf } from '../../support/effects.ts'
import { EventLog } from '../../support/event-log.ts'
import { WorkerProcess } from '../../support/processes/worker-process.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { append, jumpSegment, makeStream } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startPooler } from '../../support/servers/pooler.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const test = base.extend('effects', { auto: true }, ({ database }) => createEffects(database))

describe('a control connection through a transaction pooler', () => {
  test('P5: takes no lock of a session, listens to nothing, and leaves wake-ups to the poll', async ({
    database,
    queue,
    skip,
  }) => {
    const { pooler, url } = await startPooler(database, skip)
    const { sluice, log } = startWorker(database, { connection: url, pollInterval: 100 })
    const handled = deferred()
    sluice
      .pipeline(queue)
      .handle(() => handled.resolve())
      .subscribe()
    expect(await log.first('connection.pooled', ({ role }) => role === 'control')).toMatchObject({
      reason: expect.stringContaining('directConnection'),
    })
    await waitFor(() => isRegistered(database, queue), { what: 'the poll to say what it consumes' })
    await put(sluice, queue, [1])
    await handled.promise
    await untilEmpty(database, queue)
    expect(await sessionLocks(database)).toEqual([])
    expect((await pooler.console('SHOW CLIENTS')).map((client) => client.application_name)).not.toContain(
      'sluice listener',
    )
    expect(log.of('connection.pooled').filter(({ role }) => role === 'control')).toHaveLength(1)
    expect(log.of('connection.lost')).toEqual([])
  })

  test('sets nothing in sessions that others share', async ({ database, queue, skip }) => {
    const { url } = await startPooler(database, skip, { size: 1 })
    const { sluice } = startWorker(database, { connection: url })
    await sluice.start()
    const other = startTestSluice(database, { connection: url })
    expect(await other.enqueue(other.ownTransaction, queue, {})).toMatch(/^\d+$/)
    const own = await database.sql<{ setting: string }>('SHOW synchronous_commit')
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    const shared = await client.query<{ setting: string }>('SHOW synchronous_commit')
    await client.end()
    expect(shared.rows).toEqual(own)
    expect(await sessionSettings(url)).toEqual([])
  })

  test('leaves nothing behind in them when maintenance drops segments of streams, which the next pass can do again', async ({
    database,
    queue,
    skip,
  }) => {
    const { url } = await startPooler(database, skip, { size: 1 })
    const { operate } = startTestSluice(database, { connection: url })
    await makeStream(database, queue)
    for (const position of [1_000_000_000, 2_000_000_000]) {
      await append(database, queue, 10)
      await jumpSegment(database, queue)
      await append(database, queue, 1)
      await operate.streams.trim(queue, { position })
      expect(await operate.maintain()).toMatchObject({ segmentsDropped: 1, finished: true })
      expect(await sessionLocks(database)).toEqual([])
      expect(await sessionSettings(url)).toEqual([])
    }
  })

  test('does not make its worker look dead to others, nor its messages guilty', async ({ database, queue, skip }) => {
    const { url } = await startPooler(database, skip)
    const { sluice, log } = startWorker(database, { connection: url, name: queue })
    const go = deferred()
    const begun = deferred()
    await put(sluice, queue, [1])
    sluice
      .pipeline(queue)
      .handle(() => {
        begun.resolve()
        return go.promise
      })
      .subscribe()
    await begun.promise
    await waitFor(async () => (await workerOf(database, queue))?.in_flight === 1, { what: 'the record of the batch' })
    expect(await workerOf(database, queue)).toEqual({ alive: true, in_flight: 1 })
    expect(await reapWorkers(executeOn(database.pool), 0)).toEqual([])
    go.resolve()
    await log.first('batch.committed')
    await sluice.stop()
    expect(await workerOf(database, queue)).toBeUndefined()
  })

  test('leaves a worker that dies on the books until it has been silent for long, and blames nobody', async ({
    database,
    queue,
    skip,
  }) => {
    const { url } = await startPooler(database, skip)
    const sluice = startTestSluice(database)
    const [id] = await put(sluice, queue, [{ wait: true }])
    const worker = await WorkerProcess.start({ url }, queue)
    await worker.handling(id!)
    const isRecorded = async () => (await workerOf(database, worker.name))?.in_flight === 1
    await waitFor(isRecorded, { what: 'the record of the batch' })
    await worker.kill()
    expect(await reapWorkers(executeOn(database.pool), 0)).toEqual([])
    expect(await workerOf(database, worker.name)).toEqual({ alive: true, in_flight: 1 })
    await database.sql(
      `UPDATE sluice.worker SET seen_at = clock_timestamp() - interval '3 minutes 1 second' WHERE name = $1`,
      [worker.name],
    )
    expect(await workerOf(database, worker.name)).toEqual({ alive: false, in_flight: 1 })
    expect(await reapWorkers(executeOn(database.pool), 0)).toMatchObject([{ messages: 0 }])
    expect(await workerOf(database, worker.name)).toBeUndefined()
    expect(await database.sql('SELECT FROM sluice.crash WHERE queue = $1', [queue])).toEqual([])
    expect(await database.sql('SELECT attempt FROM sluice.messages WHERE queue = $1', [queue])).toEqual([
      { attempt: 0 },
    ])
  })

  test('shares a pool that is smaller than the batches in flight', async ({ database, queue, skip }) => {
    const { url } = await startPooler(database, skip, { size: 2 })
    const { sluice, log } = startWorker(database, { connection: url, pollInterval: 100 })
    await put(
      sluice,
      queue,
      Array.from({ length: 200 }, (_, at) => at),
    )
    sluice
      .pipeline(queue, { concurrency: 6, batchSize: 3 })
      // Long enough for the last look for dead workers to grow old.
      .handle((_, { tx }) => tx.query('SELECT pg_sleep(0.01)').then(() => undefined))
      .subscribe()
    await untilEmpty(database, queue)
    expect([log.of('batch.released'), log.of('claim.failed'), log.of('connection.lost')]).toEqual([[], [], []])
  })

  test('P4: still counts a handler that hangs until the server ends the transaction', async ({
    database,
    queue,
    skip,
  }) => {
    const { url } = await startPooler(database, skip)
    const { sluice } = startWorker(database, { connection: url, crashLimit: 1 })
    await put(sluice, queue, [1])
    sluice
      .pipeline(queue, { timeout: 500 })
      .handle(async (_, { tx }) => {
        await tx.query('SELECT 1')
        const until = performance.now() + 4_000
        while (performance.now() < until);
      })
      .subscribe()
    const buried = () => database.sql('SELECT attempt, reason FROM sluice.dead_letters WHERE queue = $1', [queue])
    await waitFor(async () => (await buried()).length > 0, { what: 'the dead letter' })
    expect(await buried()).toEqual([{ attempt: 1, reason: expect.stringContaining('crashed: 1') }])
  })

  test('is found out although it was given as a direct one', async ({ database, skip }) => {
    const { url } = await startPooler(database, skip)
    const { sluice, log } = startWorker(database, { connection: database.url, directConnection: url })
    await sluice.start()
    expect(log.of('connection.pooled')).toMatchObject([{ role: 'control' }])
    expect(await sessionLocks(database)).toEqual([])
  })

  test('is found out by the other rule of handing out sessions, too', async ({ database, skip }) => {
    const { url } = await startPooler(database, skip, { settings: { server_round_robin: 1 } })
    await openServers(url, 3)
    const { sluice, log } = startWorker(database, { connection: database.url, directConnection: url })
    await sluice.start()
    expect(log.of('connection.pooled')).toMatchObject([{ role: 'control' }])
  })
})

describe('a control connection through a session pooler', () => {
  test('has a session of its own if it was given as a direct one', async ({ database, queue, skip }) => {
    const { url } = await startPooler(database, skip, { mode: 'session' })
    const { sluice, log } = startWorker(database, { connection: database.url, directConnection: url, name: queue })
    sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    await waitFor(async () => (await sessionLocks(database)).includes(746501), { what: 'the waiting flag' })
    expect(await sessionLocks(database)).toEqual([746501, 746502])
    expect(log.of('connection.pooled')).toEqual([])
    expect(await workerOf(database, queue)).toEqual({ alive: true, in_flight: 0 })
    await sluice.stop()
    // The pooler takes a moment to clear the session of a client that has left.
    await waitFor(async () => (await sessionLocks(database)).length === 0, { what: 'the locks to go' })
  })

  test('is taken for a shared one if nobody has said more', async ({ database, skip }) => {
    const { url } = await startPooler(database, skip, { mode: 'session' })
    const { sluice, log } = startWorker(database, { connection: url })
    await sluice.start()
    expect(log.of('connection.pooled')).toMatchObject([{ role: 'control' }])
  })
})

describe('batches through a transaction pooler', () => {
  test('P1, P4: a process that is killed leaves its message to another', async ({ database, queue, skip }) => {
    const through = await startPooler(database, skip)
    const [id] = await put(startTestSluice(database), queue, [{ wait: true }])
    const options = { directConnection: database.url }
    const first = await WorkerProcess.start(through, queue, options)
    await first.handling(id!)
    const second = await WorkerProcess.start(through, queue, options)
    await first.kill()
    await second.handling(id!)
    second.order('go')
    await untilEmpty(database, queue)
    expect(await effectsOf(database, [id!])).toEqual([{ id, worker: second.name }])
  })
})

function startWorker(database: TestDatabase, options: Partial<SluiceOptions>) {
  const sluice = startTestSluice(database, options)
  return { sluice, log: new EventLog(sluice.events) }
}

/** Makes a pooler open so many server connections, which are idle then. */
async function openServers(url: string, count: number): Promise<void> {
  const clients = Array.from({ length: count }, () => new pg.Client({ connectionString: url }))
  for (const client of clients) await client.connect()
  for (const client of clients) await client.query('BEGIN')
  for (const client of clients) await client.query('COMMIT')
  for (const client of clients) await client.end()
}

/** Whether a worker is known to consume the queue. */
async function isRegistered(database: TestDatabase, queue: string): Promise<boolean> {
  const rows = await database.sql('SELECT FROM sluice.worker WHERE $1 = ANY (queues)', [queue])
  return rows.length > 0
}

async function workerOf(database: TestDatabase, name: string): Promise<Record<string, unknown> | undefined> {
  const [row] = await database.sql('SELECT alive, in_flight FROM sluice.workers WHERE name = $1', [name])
  return row
}

/** The kinds of advisory locks that anybody holds in the test's database. */
async function sessionLocks(database: TestDatabase): Promise<readonly number[]> {
  const rows = await database.sql<{ kind: number }>(
    `SELECT DISTINCT classid::integer AS kind FROM pg_locks
     WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1`,
  )
  return rows.map(({ kind }) => kind)
}

/** What is set in a server session behind a pooler beside what every client of it sets. */
async function sessionSettings(url: string): Promise<readonly string[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ name: string }>(`SELECT name FROM pg_settings WHERE source = 'session'`)
  await client.end()
  return rows.map(({ name }) => name).filter((name) => name !== 'application_name')
}
