import pg from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { pause } from '../../../src/basics/time/pause.ts'
import { ack } from '../../../src/message.ts'
import type { SluiceLog } from '../../../src/telemetry/log.ts'
import { EventLog } from '../../support/event-log.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

describe('with maxConnections', () => {
  test('a process never has more connections, and every pipeline goes on', async () => {
    const database = await freshDatabase()
    const [queues, messages, max] = [['a', 'b', 'c'], 60, 12]
    const sluice = startTestSluice(database, { maxConnections: max })
    for (const queue of [...queues, 'slow'])
      await put(
        sluice,
        queue,
        Array.from({ length: messages }, (_, at) => at),
      )
    const counts = await watchConnections(database)
    for (const queue of queues) {
      sluice
        .pipeline(queue, { concurrency: 10, batchSize: 2 })
        .handle(async (_, { tx }) => {
          await tx.query('SELECT pg_sleep(0.002)')
          await sluice.enqueue(sluice.ownTransaction, 'audit', queue)
        })
        .start()
    }
    sluice
      .pipeline('slow', { mode: 'leased', concurrency: 40 })
      .handle((_, { transaction }) =>
        transaction(async (tx) => {
          await tx.query('SELECT pg_sleep(0.002)')
          await sluice.enqueue(sluice.ownTransaction, 'audit', 'slow')
        }),
      )
      .start()
    const left = async () => {
      const found = await Promise.all([...queues, 'slow'].map((queue) => sluice.operate.queues.list({ queue })))
      return found.flat().reduce((sum, { ready, inFlight }) => sum + ready + inFlight, 0)
    }
    await waitFor(async () => (await left()) === 0, { what: 'all messages to be handled' })
    const audits = await database.sql("SELECT payload FROM sluice.message WHERE queue = 'audit'")
    expect(audits).toHaveLength(4 * messages)
    expect(counts.most()).toBeLessThanOrEqual(max)
    // It uses them, too.
    expect(counts.most()).toBeGreaterThanOrEqual(max - 3)
  })

  test('handlers that all wait for one more connection get it, one after another', async () => {
    const database = await freshDatabase()
    const sluice = startTestSluice(database, { maxConnections: 5 })
    const log = new EventLog(sluice.events)
    await put(sluice, 'orders', [1, 2])
    const both = deferred()
    let begun = 0
    sluice
      .pipeline('orders', { concurrency: 10, batchSize: 1 })
      .handle(async () => {
        begun += 1
        if (begun === 2) both.resolve()
        await both.promise
        await sluice.enqueue(sluice.ownTransaction, 'audit', 1)
        await sluice.operate.queues.names()
      })
      .start()
    await waitFor(() => log.of('batch.committed').length === 2, { what: 'both batches', timeoutMs: 20_000 })
    expect(log.of('connections.planned').at(0)).toMatchObject({
      max: 5,
      pipelines: [{ queue: 'orders', concurrency: 10, batches: 2 }],
      calls: 1,
      control: 2,
    })
    expect(await database.sql("SELECT FROM sluice.message WHERE queue = 'audit'")).toHaveLength(2)
  })

  test('a pipeline that starts later gets its share of those that a busy one has', async () => {
    const database = await freshDatabase()
    const sluice = startTestSluice(database, { maxConnections: 6 })
    await put(
      sluice,
      'busy',
      Array.from({ length: 1_000 }, (_, at) => at),
    )
    const [inFlight, handled] = [new Set<string>(), deferred()]
    let most = 0
    const log = new EventLog(sluice.events)
    sluice
      .pipeline('busy', { concurrency: 10, batchSize: 1 })
      .handle(async ({ id }) => {
        inFlight.add(id)
        most = Math.max(most, inFlight.size)
        await pause(5)
        inFlight.delete(id)
      })
      .start()
    await waitFor(() => most === 2, { what: 'the busy pipeline to use all of its share' })
    await put(sluice, 'late', [1])
    sluice
      .pipeline('late')
      .handle(() => handled.resolve())
      .start()
    await handled.promise
    expect(await database.sql("SELECT FROM sluice.message WHERE queue = 'busy' LIMIT 1")).toHaveLength(1)
    const shares = ({ pipelines, calls }: { pipelines: readonly { batches: number }[]; calls: number }) => [
      ...pipelines.map(({ batches }) => batches),
      calls,
    ]
    await waitFor(() => log.of('connections.planned').length === 2, { what: 'the new plan' })
    expect(log.of('connections.planned').map(shares)).toEqual([
      [2, 2],
      [2, 1, 1],
    ])
  })

  test('fewer pipelines share more', async () => {
    const database = await freshDatabase()
    const sluice = startTestSluice(database, { maxConnections: 8 })
    const log = new EventLog(sluice.events)
    const start = (queue: string) =>
      sluice
        .pipeline(queue, { concurrency: 3 })
        .handle(() => undefined)
        .start()
    const [first] = [start('a'), start('b')]
    const batches = async (...wanted: readonly number[]) =>
      log.first(
        'connections.planned',
        ({ pipelines }) => String(pipelines.map((one) => one.batches)) === String(wanted),
      )
    await batches(2, 2)
    await first.drain()
    await batches(3)
  })

  test('runs of a pipeline side by side share them, and wait for one another', async () => {
    const database = await freshDatabase()
    const [runs, messages, max] = [8, 40, 8]
    const sluice = startTestSluice(database, { maxConnections: max })
    const log = new EventLog(sluice.events)
    const counts = await watchConnections(database)
    const pipeline = sluice.pipeline('orders', { batchSize: 1, concurrency: runs }).handle(() => pause(5))
    for (let pass = 0; pass < 3; pass += 1) {
      await put(sluice, 'orders', Array.from({ length: messages }).fill(pass))
      const all = await Promise.all(Array.from({ length: runs }, () => pipeline.runOnce()))
      expect(all.reduce((sum, { counts: { acked } }) => sum + acked, 0)).toBe(messages)
    }
    expect(counts.most()).toBeLessThanOrEqual(max)
    const orders = { queue: 'orders', mode: 'transactional', concurrency: runs, batches: 4 }
    const plans = log.of('connections.planned').map(({ pipelines, calls }) => ({ pipelines, calls }))
    expect(plans).toEqual([{ pipelines: [orders], calls: 2 }])
  })

  test('the first line of the log says how they are shared', async () => {
    const database = await freshDatabase()
    const lines: string[] = []
    const write = (line: string) => void lines.push(line)
    const log: SluiceLog = { info: write, warn: write, error: write }
    const sluice = startTestSluice(database, { maxConnections: 12, log })
    const start = (queue: string, concurrency: number) =>
      sluice
        .pipeline(queue, { concurrency })
        .handle(() => undefined)
        .start()
    start('emails', 4)
    start('orders', 8)
    await waitFor(() => lines.length > 0, { what: 'a line' })
    expect(lines[0]).toBe(
      'sluice: 12 connections at most: 4 batches of emails, 4 of 8 batches of orders, 2 for calls, 2 for control and listening',
    )
  })

  test('too few are refused with the least that works, and what runs goes on', async () => {
    const database = await freshDatabase()
    const small = startTestSluice(database, { maxConnections: 3 })
    const pipeline = small.pipeline('orders').handle(() => undefined)
    const refused = (least: number) =>
      expect.objectContaining({
        code: 'OPTION_INVALID',
        message: expect.stringContaining(`maxConnections: expected at least ${least} `),
      })
    expect(() => pipeline.start()).toThrow(refused(4))
    await expect(pipeline.runOnce()).rejects.toThrow(refused(4))
    const enough = startTestSluice(database, { maxConnections: 4 })
    const log = new EventLog(enough.events)
    enough
      .pipeline('orders')
      .handle(() => undefined)
      .start()
    expect(() =>
      enough
        .pipeline('emails')
        .handle(() => undefined)
        .start(),
    ).toThrow(refused(5))
    await put(enough, 'orders', [1])
    await log.first('batch.committed')
  })

  test('claims that wait have two of them, beside busy batches', async () => {
    const database = await freshDatabase()
    const sluice = startTestSluice(database, { maxConnections: 8 })
    const counts = await watchConnections(database)
    await put(
      sluice,
      'busy',
      Array.from({ length: 300 }, (_, at) => at),
    )
    sluice
      .pipeline('busy', { concurrency: 10, batchSize: 1 })
      .handle(() => pause(5))
      .start()
    const waiting = sluice.claim('rare', { wait: '30s' })
    await waitFor(async () => (await counts.count('sluice listener')) === 2, { what: 'the listener of the claim' })
    await put(sluice, 'rare', [1])
    const claim = await waiting
    await claim?.settle(claim.messages, ack())
    expect(counts.most()).toBeLessThanOrEqual(8)
  })

  test.for(['time', 'signal'] as const)(
    'a claim that waited for connections, until its %s ended that, leaves them to batches',
    async (by) => {
      const database = await freshDatabase()
      const sluice = startTestSluice(database, { maxConnections: 10 })
      const log = new EventLog(sluice.events)
      await put(sluice, 'busy', [1, 2, 3, 4, 5, 6, 7])
      const [first, others] = [deferred(), deferred()]
      let begun = 0
      sluice
        .pipeline('busy', { concurrency: 10, batchSize: 1, timeout: '1h' })
        .handle(({ payload }) => {
          begun += 1
          return payload === 1 ? first.promise : others.promise
        })
        .start()
      await waitFor(() => begun === 6, { what: 'all batches that there may be' })
      const controller = new AbortController()
      const wait = by === 'time' ? '50ms' : '5m'
      const waiting = sluice.claim('rare', { wait, signal: controller.signal }).catch((error: unknown) => error)
      await log.first('connections.planned', ({ pipelines: [busy] }) => busy?.batches === 4)
      if (by === 'signal') controller.abort(by)
      expect(await waiting).toBe(by === 'time' ? undefined : by)
      first.resolve()
      await waitFor(() => begun === 7, { what: 'the last batch, beside five that go on' })
      others.resolve()
    },
  )

  test('a claim that begins while the connections of the last one are being closed waits for that', async () => {
    const database = await freshDatabase()
    const sluice = startTestSluice(database, { maxConnections: 3 })
    const seen = new Set<unknown>()
    const isNew = async () => {
      const listeners = await database.sql(
        `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sluice listener'`,
      )
      return listeners.some(({ pid }) => seen.size < seen.add(pid).size)
    }
    /** Waits until its connections are there, and then no longer. */
    const wait = async () => {
      const controller = new AbortController()
      const claim = sluice.claim('rare', { wait: '5m', signal: controller.signal }).catch((error: unknown) => error)
      await Promise.race([waitFor(isNew, { what: 'a new listener' }), claim])
      controller.abort('over')
      return claim
    }
    onTestFinished(() => void vi.useRealTimers())
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    expect(await wait()).toBe('over')
    // They stay for half a second.
    vi.advanceTimersByTime(500)
    expect(await wait()).toBe('over')
  })

  test('a doctor, and a batch that loses its connection, need no more', async () => {
    const database = await freshDatabase()
    const sluice = startTestSluice(database, { maxConnections: 4 })
    const log = new EventLog(sluice.events)
    const counts = await watchConnections(database)
    await put(sluice, 'orders', [1])
    let tries = 0
    sluice
      .pipeline('orders', { retry: { kind: 'fixed', delay: '10ms' } })
      .handle(async (_, { tx }) => {
        tries += 1
        if (tries === 1) await tx.query('SELECT pg_terminate_backend(pg_backend_pid())').catch(() => undefined)
      })
      .start()
    await log.first('batch.committed')
    expect(tries).toBe(2)
    await sluice.operate.doctor()
    expect(counts.most()).toBeLessThanOrEqual(4)
  })

  test('a role that has too many is told by the error, with how to raise its limit', async () => {
    const database = await freshDatabase()
    const role = `sluice_test_${new URL(database.url).pathname.slice(-12)}`
    await database.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'x' CONNECTION LIMIT 1`)
    onTestFinished(async () => {
      await database.sql(`DROP ROLE ${role}`)
    })
    const url = Object.assign(new URL(database.url), { username: role, password: 'x' }).href
    const first = new pg.Client({ connectionString: url })
    await first.connect()
    const sluice = startTestSluice(database, { connection: url })
    const refused = await sluice.start().catch((error: unknown) => error)
    expect(refused).toMatchObject({
      code: 'UNREACHABLE',
      message: expect.stringContaining(`\`ALTER ROLE "${role}" CONNECTION LIMIT 100\`, or let each process open fewer`),
    })
    await first.end()
  })
})

/** A database of the test's own, so that only its connections are counted. */
async function freshDatabase(): Promise<TestDatabase> {
  const database = await createTestDatabase()
  onTestFinished(() => database[Symbol.asyncDispose]())
  return database
}

/** Counts the connections of Sluice all the time. */
async function watchConnections(database: TestDatabase) {
  const own = "datname = current_database() AND application_name LIKE 'sluice%'"
  let [most, over] = [0, false]
  const client = await database.pool.connect()
  const watch = async () => {
    while (!over) {
      const { rows } = await client.query<{ n: number }>(`SELECT count(*)::int AS n FROM pg_stat_activity WHERE ${own}`)
      most = Math.max(most, rows[0]!.n)
    }
    client.release()
  }
  const watching = watch()
  onTestFinished(async () => {
    over = true
    await watching
  })
  return {
    /** The most that there have been. */
    most: () => most,
    count: async (name: string) => {
      const found = await database.sql(`SELECT FROM pg_stat_activity WHERE ${own} AND application_name = $1`, [name])
      return found.length
    },
  }
}
