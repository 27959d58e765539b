import knex from 'knex'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { describe, expect, onTestFinished } from 'vitest'
import type { Pooler } from '../../../faults/environment/pooler.ts'
import { executeOn } from '../../../src/connection/open-client.ts'
import type { OpenTransaction } from '../../../src/enqueue/open-transaction.ts'
import { deadLetter, retryLater, snooze } from '../../../src/message.ts'
import { migrate } from '../../../src/migrate/migrate.ts'
import { claim } from '../../../src/table/claim/claim.ts'
import { cancelStatement } from '../../../src/table/worker/server-process.ts'
import { createNumberedEffects, INSERT_NUMBERED } from '../../support/effects.ts'
import { EventLog } from '../../support/event-log.ts'
import { bottomOf } from '../../support/rows/claim-session.ts'
import { THIS_DATABASE } from '../../support/rows/flag.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { openPool } from '../../support/servers/pool.ts'
import { startPooler, type TestPooler } from '../../support/servers/pooler.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

/** A PgBouncer in transaction mode that knows nothing of prepared statements, and a control connection around it. */
const test = base
  .extend('through', ({ database, skip }) => startPooler(database, skip))
  .extend('sluice', ({ database, through }) =>
    startTestSluice(database, { connection: through.url, directConnection: database.url }),
  )
  .extend('effects', { scope: 'file' }, ({ database }) => createNumberedEffects(database))

describe('through a transaction pooler', () => {
  test('a batch settles its messages in every way, and keeps what its handlers wrote', async ({
    database,
    sluice,
    queue,
    effects,
    log,
  }) => {
    await put(sluice, queue, [1, 2, 3, 4, 5])
    sluice
      .pipeline(queue, LATER)
      .handle(async ({ payload }, { tx, enqueue }) => {
        await tx.query(INSERT_NUMBERED, [queue, payload])
        if (payload === 1) await enqueue(`${queue}.next`, { from: 1 })
        if (payload === 2) return retryLater({ after: '2h' })
        if (payload === 3) return snooze({ after: '3h' })
        if (payload === 4) return deadLetter('no good')
        if (payload === 5) throw new Error('failed on purpose')
        return undefined
      })
      .subscribe()
    expect(await log.first('batch.committed')).toMatchObject({ acked: 1, retried: 2, snoozed: 1, dead: 1 })
    expect(await effects(queue)).toEqual([1, 3])
    expect(await payloadsOf(database, `${queue}.next`)).toEqual([{ from: 1 }])
    const states = () =>
      database.sql(
        `SELECT payload, state, attempt FROM sluice.messages WHERE queue = $1
         UNION ALL SELECT payload, 'dead', attempt FROM sluice.dead_letters WHERE queue = $1 ORDER BY 1`,
        [queue],
      )
    await waitFor(async () => (await states()).every(({ state }) => state !== 'in_flight'), {
      what: 'the record to go',
    })
    expect(await states()).toEqual([
      { payload: 2, state: 'retrying', attempt: 1 },
      { payload: 3, state: 'scheduled', attempt: 0 },
      { payload: 4, state: 'dead', attempt: 1 },
      { payload: 5, state: 'retrying', attempt: 1 },
    ])
  })

  test('says once that its statements have no names, and leaves no statement behind', async ({
    database,
    through,
    sluice,
    queue,
    log,
  }) => {
    await put(sluice, queue, numbers(40))
    sluice
      .pipeline(queue, { concurrency: 4, batchSize: 2 })
      .handle(() => undefined)
      .subscribe()
    await untilEmpty(database, queue)
    expect(log.of('connection.pooled')).toMatchObject([{ role: 'batches' }])
    expect(log.of('claim.failed')).toEqual([])
    expect(await preparedIn(through)).toEqual(['sluice_session'])
  })

  test('keeps the order of a key, and that of a queue', async ({ database, sluice, queue }) => {
    const keyed: unknown[] = []
    const all: unknown[] = []
    await put(sluice, queue, numbers(60), { orderingKey: 'a' })
    await put(sluice, `${queue}.all`, numbers(60))
    sluice
      .pipeline(queue, { concurrency: 3, batchSize: 4, retry: { kind: 'fixed', delay: 1 } })
      .handle(({ payload, attempt }) => {
        if (payload === 7 && attempt === 1) throw new Error('failed on purpose')
        keyed.push(payload)
      })
      .subscribe()
    sluice
      .pipeline(`${queue}.all`, { concurrency: 3, batchSize: 4, ordered: true })
      .handle(({ payload }) => void all.push(payload))
      .subscribe()
    await untilEmpty(database, queue)
    await untilEmpty(database, `${queue}.all`)
    expect([keyed, all]).toEqual([numbers(60), numbers(60)])
  })

  test('handles a whole batch in one call, and each message alone when that throws', async ({
    sluice,
    queue,
    effects,
    log,
  }) => {
    await put(sluice, queue, [1, 2, 3])
    sluice
      .pipeline(queue, LATER)
      .handleBatch(async (messages, { tx }) => {
        for (const { payload } of messages) await tx.query(INSERT_NUMBERED, [queue, payload])
        if (messages.some(({ payload }) => payload === 2)) throw new Error('failed on purpose')
      })
      .subscribe()
    expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 1 })
    expect(await effects(queue)).toEqual([1, 3])
  })

  test('a deferred constraint fails its own message only', async ({ database, sluice, queue, log }) => {
    await database.sql(`
      CREATE TABLE parent (id integer PRIMARY KEY);
      CREATE TABLE child (parent integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
    await put(sluice, queue, [1, 2, 3])
    sluice
      .pipeline(queue, LATER)
      .handle(async ({ payload }, { tx }) => {
        await tx.query('INSERT INTO child VALUES ($1)', [payload])
        if (payload !== 2) await tx.query('INSERT INTO parent VALUES ($1)', [payload])
      })
      .subscribe()
    expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 1 })
    expect(await database.sql('SELECT parent FROM child ORDER BY 1')).toEqual([{ parent: 1 }, { parent: 3 }])
  })

  test('gives out deliveries, and takes back those that nobody has settled', async ({ database, sluice, queue }) => {
    await put(sluice, queue, numbers(5))
    for await (const delivery of sluice.deliveries(queue, { demand: 2 })) {
      if (delivery.message.payload === 4) break
      delivery.ack()
    }
    const left = await waitFor(
      async () => {
        const rows = await database.sql<{ payload: number }>(
          'SELECT payload FROM sluice.message WHERE queue = $1 ORDER BY id FOR UPDATE SKIP LOCKED',
          [queue],
        )
        return rows.some(({ payload }) => payload === 4) && rows.map(({ payload }) => payload)
      },
      { what: 'what was given back' },
    )
    expect(left).toContain(4)
    expect(left.length).toBe((await payloadsOf(database, queue)).length)
  })

  test('migrates', async ({ skip }) => {
    const empty = await createTestDatabase({ migrated: false })
    onTestFinished(() => empty[Symbol.asyncDispose]())
    const { url } = await startPooler(empty, skip)
    expect((await migrate({ connectionString: url })).applied).not.toEqual([])
    expect((await migrate({ connectionString: url })).applied).toEqual([])
  })
})

describe('a statement that is to be cancelled', () => {
  test('is, when its handler takes too long', async ({ sluice, queue, log }) => {
    await put(sluice, queue, [1])
    sluice
      .pipeline(queue, { timeout: 100, ...LATER })
      .handle((_, { tx }) => tx.query(`SELECT pg_sleep(60), '${queue}'`).then(() => undefined))
      .subscribe()
    expect(await log.first('message.failed')).toMatchObject({ attempt: 1, error: expect.stringContaining('100 ms') })
    expect(await log.first('batch.committed')).toMatchObject({ retried: 1 })
    expect(log.of('batch.released')).toEqual([])
  })

  test('is not, when its transaction has ended and the server process serves somebody else', async ({
    database,
    skip,
    queue,
  }) => {
    const { url } = await startPooler(database, skip, { size: 1 })
    const [first, second] = [await connect(url), await connect(url)]
    await first.query('BEGIN')
    const ended = await claim(executeOn(first), queue, bottomOf(5), 1)
    await first.query('COMMIT')
    await second.query('BEGIN')
    const running = await claim(executeOn(second), queue, bottomOf(5), 1)
    expect(running.transaction.pid).toBe(ended.transaction.pid)

    const sleep = second.query('SELECT pg_sleep(60)').then(
      () => 'slept',
      (error: { code?: string }) => error.code,
    )
    await untilRunning(database, running.transaction.pid)
    const execute = executeOn(database.pool)
    await cancelStatement(execute, ended.transaction)
    expect(await isRunning(database, running.transaction.pid)).toBe(true)
    await cancelStatement(execute, running.transaction)
    expect(await sleep).toBe('57014')
  })
})

describe('an enqueue through a transaction pooler', () => {
  const CLIENTS = {
    pg: async (url: string, work: Work) => {
      const client = await connect(url)
      await client.query('BEGIN')
      await work(client)
      await client.query('COMMIT')
    },
    Kysely: async (url: string, work: Work) => {
      const pool = openPool({ connectionString: url })
      const db = new Kysely({ dialect: new PostgresDialect({ pool }) })
      await db
        .transaction()
        .execute(work)
        .finally(() => db.destroy())
    },
    Knex: async (url: string, work: Work) => {
      const db = knex({ client: 'pg', connection: url })
      await db.transaction(work).finally(() => db.destroy())
    },
    'postgres.js': async (url: string, work: Work) => {
      const sql = postgres(url, { prepare: false })
      await sql.begin(work).finally(() => sql.end())
    },
  }
  type Work = (tx: OpenTransaction) => Promise<void>

  test.for(Object.entries(CLIENTS))(
    'works in a transaction of %s, again and again',
    async ([, begin], { database, queue, skip }) => {
      const { url } = await startPooler(database, skip, { size: 2 })
      const sluice = startTestSluice(database)
      for (const n of [1, 2, 3]) await begin(url, async (tx) => void (await sluice.enqueue(tx, queue, n)))
      expect(await payloadsOf(database, queue)).toEqual([1, 2, 3])
    },
  )

  test('works in transactions of its own, from two processes with sessions in common', async ({
    database,
    queue,
    skip,
  }) => {
    const { url } = await startPooler(database, skip, { size: 1 })
    const [one, other] = [
      startTestSluice(database, { connection: url }),
      startTestSluice(database, { connection: url }),
    ]
    for (const n of [1, 3, 5]) {
      await one.enqueue(one.ownTransaction, queue, n)
      await other.enqueue(other.ownTransaction, queue, n + 1)
    }
    expect(await payloadsOf(database, queue)).toEqual([1, 2, 3, 4, 5, 6])
  })

  test('wakes a consumer that sleeps', async ({ database, through, sluice, queue, log }) => {
    const handled = deferred<unknown>()
    const own = startTestSluice(database, {
      connection: through.url,
      directConnection: database.url,
      pollInterval: 60_000,
    })
    own
      .pipeline(queue)
      .handle(({ payload }) => handled.resolve(payload))
      .subscribe()
    await waitFor(() => waits(database, queue), { what: 'the waiting flag' })
    await sluice.enqueue(sluice.ownTransaction, queue, 1)
    expect(await handled.promise).toBe(1)
    expect(log.of('listener.unavailable')).toEqual([])
  })
})

describe('the server connections of a pool', () => {
  test('are kept by busy runners only, one each', async ({ database, through, sluice, queue }) => {
    const go = deferred()
    await put(sluice, queue, numbers(6))
    let running = 0
    sluice
      .pipeline(queue, { concurrency: 3, batchSize: 1 })
      .handle(() => {
        running += 1
        return go.promise
      })
      .subscribe()
    await waitFor(() => running === 3, { what: 'three handlers' })
    expect((await through.pooler.counts(through.database)).serversActive).toBe(3)
    go.resolve()
    await untilEmpty(database, queue)
    await waitFor(async () => (await through.pooler.counts(through.database)).serversActive === 0, {
      what: 'the server connections to be free',
    })
  })

  test('may be fewer than the batches in flight', async ({ database, skip, queue }) => {
    const { pooler, url, database: name } = await startPooler(database, skip, { size: 2 })
    const sluice = startTestSluice(database, { connection: url, directConnection: database.url })
    const log = new EventLog(sluice.events)
    await put(sluice, queue, numbers(60))
    let most = 0
    sluice
      .pipeline(queue, { concurrency: 6, batchSize: 3 })
      .handle(async () => {
        const { serversActive } = await pooler.counts(name)
        most = Math.max(most, serversActive)
      })
      .subscribe()
    await untilEmpty(database, queue)
    expect(most).toBe(2)
    expect([log.of('claim.failed'), log.of('batch.released'), log.of('connection.lost')]).toEqual([[], [], []])
  })

  test('are as they were when all is over', async ({ database, skip, queue }) => {
    const { pooler, url } = await startPooler(database, skip, { size: 3 })
    const before = await settingsOf(url)
    const sluice = startTestSluice(database, { connection: url, directConnection: database.url })
    await put(sluice, queue, numbers(20), { orderingKey: 'a' })
    sluice
      .pipeline(queue, { concurrency: 3, batchSize: 2, timeout: 60_000 })
      .handle((_, { tx }) => tx.query('SELECT 1').then(() => undefined))
      .subscribe()
    await untilEmpty(database, queue)
    await sluice.stop()
    expect(await settingsOf(url)).toEqual(before)
    expect(await preparedIn({ url })).toEqual(['sluice_session'])
    const pids = await serverPids(pooler)
    expect(pids.length).toBeGreaterThan(0)
    expect(await database.sql('SELECT pid FROM pg_locks WHERE pid = ANY ($1::integer[])', [pids])).toEqual([])
  })
})

describe('what a pooler has set on a server session', () => {
  test("stays through a handler that changes it, and the handler's own settings do not", async ({
    database,
    skip,
    queue,
  }) => {
    const { url } = await startPooler(database, skip, { size: 1 })
    const through = new URL(url)
    through.searchParams.set('application_name', 'mine')
    const name = new URL(database.url).pathname.slice(1)
    // What the server gives a session by itself is not what the driver asks for.
    await database.sql(`ALTER DATABASE ${name} SET client_encoding = 'SQL_ASCII'`)
    onTestFinished(() => void database.sql(`ALTER DATABASE ${name} RESET client_encoding`))
    const sluice = startTestSluice(database, { connection: through.href, directConnection: database.url })
    const seen: unknown[] = []
    const look = `SELECT current_setting('client_encoding') AS encoding, current_setting('application_name') AS application,
      current_setting('DateStyle') AS dates, current_setting('search_path') AS path`
    const pipeline = sluice.pipeline(queue, { ...LATER, batchSize: 2 }).handle(async (_, { tx }) => {
      seen.push((await tx.query(look)).rows[0])
      await tx.query(`SET application_name = 'other'; SET DateStyle = 'German'; SET LOCAL search_path = pg_catalog`)
      await tx.query(`SET client_encoding = 'SQL_ASCII'`)
    })
    await put(sluice, queue, numbers(4))
    await pipeline.runOnce()
    const [first] = seen
    expect(first).toMatchObject({ encoding: 'UTF8', application: 'mine' })
    expect(seen).toEqual(Array(4).fill(first))
  })
})

describe('what befalls a pool', () => {
  test('a batch that waits too long for a server connection is given up, and tried again', async ({
    database,
    skip,
    queue,
  }) => {
    const { url } = await startPooler(database, skip, { size: 1, settings: { query_wait_timeout: 1 } })
    const sluice = startTestSluice(database, { connection: url, directConnection: database.url })
    const log = new EventLog(sluice.events)
    const go = deferred()
    await put(sluice, queue, numbers(4))
    const handled: unknown[] = []
    sluice
      .pipeline(queue, { concurrency: 2, batchSize: 1 })
      .handle(async ({ payload }) => {
        handled.push(payload)
        await go.promise
      })
      .subscribe()
    await log.first('claim.failed')
    expect(handled).toEqual([1])
    go.resolve()
    await untilEmpty(database, queue)
    expect(handled.toSorted()).toEqual(numbers(4))
  })

  test('P1: a pooler that is killed and restarted under load repeats and loses nothing', async ({
    database,
    through,
    sluice,
    queue,
    effects,
    log,
  }) => {
    const all = numbers(300)
    await put(sluice, queue, all)
    let handled = 0
    sluice
      .pipeline(queue, { concurrency: 4, batchSize: 5 })
      .handle(async ({ payload }, { tx }) => {
        await tx.query(INSERT_NUMBERED, [queue, payload])
        handled += 1
      })
      .subscribe()
    for (const mark of [40, 150]) {
      await waitFor(() => handled >= mark, { what: `${mark} messages` })
      await through.pooler.restart()
    }
    await untilEmpty(database, queue)
    expect(await effects(queue)).toEqual(all)
    expect(log.of('batch.released').length + log.of('claim.failed').length).toBeGreaterThan(0)
  })
})

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** The names of the statements that the sessions of a pool keep. */
async function preparedIn({ url }: Pick<TestPooler, 'url'>): Promise<readonly string[]> {
  const found = await inEverySession(url, 'SELECT name FROM pg_prepared_statements')
  return [...new Set(found.map(({ name }) => String(name)))]
}

/** What is set in the sessions of a pool by a session's own word, and what they listen to. */
async function settingsOf(url: string): Promise<readonly Record<string, unknown>[]> {
  const found = await inEverySession(
    url,
    `SELECT name, setting FROM pg_settings WHERE source = 'session' AND setting <> reset_val AND name <> 'application_name'
     UNION ALL SELECT 'channel', c FROM pg_listening_channels() c
     UNION ALL SELECT 'temporary', c.relname FROM pg_class c WHERE c.relpersistence = 't' ORDER BY 1`,
  )
  return [...new Map(found.map((row) => [JSON.stringify(row), row])).values()]
}

/** The rows of a query in all sessions that a pool can have open: each client holds one. */
async function inEverySession(url: string, text: string): Promise<readonly Record<string, unknown>[]> {
  const clients: pg.Client[] = []
  try {
    for (let opened = 0; opened < 3; opened++) {
      const client = new pg.Client({ connectionString: url })
      clients.push(client)
      await client.connect()
      await client.query('BEGIN')
    }
    const results = await Promise.all(clients.map((client) => client.query<Record<string, unknown>>(text)))
    return results.flatMap(({ rows }) => rows)
  } finally {
    await Promise.all(clients.map((client) => client.query('ROLLBACK').finally(() => client.end())))
  }
}

async function serverPids(pooler: Pooler): Promise<readonly number[]> {
  const servers = await pooler.console('SHOW SERVERS')
  return servers.map((server) => Number(server.remote_pid))
}

async function isRunning(database: TestDatabase, pid: number): Promise<boolean> {
  const rows = await database.sql(
    `SELECT FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%pg_sleep%' AND state = 'active'`,
    [pid],
  )
  return rows.length > 0
}

async function untilRunning(database: TestDatabase, pid: number): Promise<void> {
  await waitFor(() => isRunning(database, pid), { what: 'the statement to run' })
}

async function waits(database: TestDatabase, queue: string): Promise<boolean> {
  const rows = await database.sql(
    `SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 746501
       AND l.objid = (hashtext($1)::bigint & 4294967295)::oid AND l.granted AND ${THIS_DATABASE}`,
    [queue],
  )
  return rows.length > 0
}

function numbers(count: number): readonly number[] {
  return Array.from({ length: count }, (_, at) => at + 1)
}
