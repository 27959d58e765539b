import type pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import type { TcpProxy } from '../../../faults/environment/tcp-proxy.ts'
import { migrate } from '../../../src/migrate/migrate.ts'
import { MIGRATION_LIMITS, migrateWithin } from '../../../src/migrate/migrator.ts'
import { createSluice } from '../../../src/sluice.ts'
import { SCHEMA_VERSION } from '../../../src/table/schema.ts'
import { inOnePacket, inOwnTransaction } from '../../../src/transaction/own-transaction.ts'
import { unlockedPayloads } from '../../support/rows/rows.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { openPool } from '../../support/servers/pool.ts'
import { untilSessions } from '../../support/servers/sessions.ts'
import { silenceAfterLogin } from '../../support/servers/silence.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

// A server, or the network before it, that neither answers nor breaks off. None of these promises resolves without a
// limit of its own, so that the test's own limit would end it.

const ANSWER_MS = 300

describe('a server that falls silent after it has let us in', () => {
  test('fails start() within the connect timeout', async ({ database }) => {
    const proxy = await startProxy(database.url)
    silenceAfterLogin(proxy, 'sluice control')
    const sluice = startTestSluice({ url: proxy.url }, { connectTimeout: 1_000 })
    await expect(sluice.start()).rejects.toMatchObject({ code: 'UNREACHABLE' })
    proxy.passes = () => true
    await waitFor(
      () =>
        sluice.start().then(
          () => true,
          () => false,
        ),
      { what: 'a start when it speaks again' },
    )
  })

  test('fails runOnce() with UNREACHABLE', async ({ database, queue }) => {
    const { proxy, sluice } = await startHalf(database)
    silenceAfterLogin(proxy, 'sluice')
    const once = sluice
      .pipeline(queue)
      .handle(() => undefined)
      .runOnce()
    await expect(once).rejects.toMatchObject({ code: 'UNREACHABLE' })
  })

  test('does not make a claim fail that waits on the server for a lock', async ({ database, queue }) => {
    const { sluice } = await startHalf(database)
    await put(sluice, queue, [1], { orderingKey: 'a' })
    const holder = await database.pool.connect()
    await holder.query('BEGIN; LOCK TABLE sluice.message IN EXCLUSIVE MODE')
    const handled = sluice
      .pipeline(queue)
      .handle(() => undefined)
      .runOnce()
    const asked = (text: string) =>
      database.sql(
        `SELECT FROM pg_stat_activity WHERE query LIKE '%${text}%' AND pid <> pg_backend_pid()
         AND application_name = 'sluice control' AND datname = current_database()`,
      )
    await waitFor(async () => (await asked('AS busy')).length === 1, { what: 'the question whether it works' })
    await holder.query('ROLLBACK')
    holder.release()
    expect(await handled).toMatchObject([{ outcome: { kind: 'ack' } }])
  })
})

describe('an enqueue in ownTransaction', () => {
  test('fails with UNREACHABLE when its INSERT is not answered', async ({ database }) => {
    const { proxy, pool } = await startPool(database)
    silenceAfterLogin(proxy, APPLICATION)
    const work = inOwnTransaction(pool, (execute) => execute({ name: 'x', text: 'SELECT 1' }, []), ANSWER_MS)
    await expect(work).rejects.toMatchObject({ code: 'UNREACHABLE' })
    expect(pool.totalCount).toBe(0)
  })

  test('fails with COMMIT_FAILED when its COMMIT is not answered', async ({ database }) => {
    const { proxy, pool } = await startPool(database)
    const work = inOwnTransaction(pool, async () => proxy.blackHole(), ANSWER_MS)
    await expect(work).rejects.toMatchObject({ code: 'COMMIT_FAILED' })
  })

  test('that is one statement fails with UNREACHABLE when it is not answered', async ({ database }) => {
    const { proxy, pool } = await startPool(database)
    silenceAfterLogin(proxy, APPLICATION)
    const work = inOnePacket(pool, (execute) => execute({ name: 'x', text: 'SELECT 1' }, []), ANSWER_MS)
    await expect(work).rejects.toMatchObject({ code: 'UNREACHABLE' })
    expect(pool.totalCount).toBe(0)
  })

  test('that waits for a lock ends on the server, and leaves no session', async ({ database }) => {
    const { pool } = await startPool(database)
    await database.sql('CREATE TABLE locked (n integer)')
    const holder = await database.pool.connect()
    onTestFinished(() => holder.release(true))
    await holder.query('BEGIN; LOCK TABLE locked')
    const insert = { name: 'x', text: 'INSERT INTO locked VALUES (1)' }
    await expect(inOwnTransaction(pool, (execute) => execute(insert, []), 2_000)).rejects.toMatchObject({
      code: '55P03',
    })
    await untilSessions(database, APPLICATION, 0)
  })
})

describe('migrate', () => {
  test('fails with UNREACHABLE when the server falls silent, at once or later', async ({ database }) => {
    const proxy = await startProxy(database.url)
    const config = { connectionString: proxy.url, application_name: APPLICATION }
    silenceAfterLogin(proxy, APPLICATION)
    await expect(migrateWithin({ ...MIGRATION_LIMITS, silenceMs: ANSWER_MS }, config)).rejects.toMatchObject({
      code: 'UNREACHABLE',
    })
    proxy.passes = ({ bytes }) => !bytes.includes('schema_version')
    await expect(migrateWithin({ ...MIGRATION_LIMITS, silenceMs: ANSWER_MS }, config)).rejects.toMatchObject({
      code: 'UNREACHABLE',
      message: expect.stringContaining('. Run it again: what has been applied is left alone'),
    })
  })

  test('waits for another one that takes longer', async () => {
    await using database = await createTestDatabase({ migrated: false })
    const proxy = await startProxy(database.url)
    const holder = await database.pool.connect()
    await holder.query('BEGIN')
    await holder.query('SELECT pg_advisory_xact_lock(746500, 0)')
    const migrated = migrateWithin({ ...MIGRATION_LIMITS, silenceMs: ANSWER_MS }, { connectionString: proxy.url })
    await waitFor(() => proxy.accepted >= 3, { what: 'the second question' })
    await holder.query('COMMIT')
    holder.release()
    expect(await migrated).toMatchObject({ version: SCHEMA_VERSION })
  })

  test('is not ended by a limit that the database has for statements', async () => {
    await using database = await createTestDatabase({ migrated: false })
    const holder = await database.pool.connect()
    await holder.query('BEGIN')
    await holder.query('SELECT pg_advisory_xact_lock(746500, 0)')
    await database.sql(`ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET statement_timeout = '500ms'`)
    const migrated = migrate(database.url)
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'
      AND query_start < clock_timestamp() - interval '600 ms'`
    const beyond = waitFor(async () => (await database.sql(waiting)).length === 1, { what: 'a wait beyond the limit' })
    try {
      await Promise.race([beyond, migrated])
    } finally {
      await holder.query('COMMIT')
      holder.release()
    }
    expect(await migrated).toMatchObject({ version: SCHEMA_VERSION })
  })
})

describe('stop ends', () => {
  test('while an enqueue in ownTransaction waits on a half-open connection', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    const sluice = createSluice({ connection: proxy.url })
    silenceAfterLogin(proxy, 'sluice')
    const enqueued = sluice.enqueue(sluice.ownTransaction, queue, 1)
    const refused = expect(enqueued).rejects.toMatchObject({ code: 'UNREACHABLE' })
    await waitFor(() => proxy.countOf('sluice') === 1, { what: 'the connection' })
    await sluice.stop({ timeout: 0 })
    await refused
  })

  test('while its connections hang in connecting', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    proxy.blackHole()
    const sluice = createSluice({ connection: proxy.url, connectTimeout: 600_000 })
    const { ended: closed } = sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    const ended = Promise.allSettled([closed, sluice.enqueue(sluice.ownTransaction, queue, 1)])
    await waitFor(() => proxy.accepted === 2, { what: 'both connections' })
    await sluice.stop({ timeout: 0 })
    await ended
  })

  test('while a pipeline that has started connects for a batch', async ({ database, queue }) => {
    const { proxy, sluice } = await startHalf(database, 600_000)
    proxy.blackHole('sluice')
    const subscription = sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    await waitFor(() => proxy.accepted >= 1, { what: 'the connection' })
    await subscription.stop()
    await subscription.ended
    await sluice.stop({ timeout: 0 })
  })

  test('while the control connection and the listener are silent', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    const sluice = createSluice({ connection: database.url, directConnection: proxy.url })
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    await put(sluice, queue, [1])
    const { end } = await steps.next()
    proxy.blackHole()
    end()
    await sluice.stop({ timeout: 0 })
    await untilSessions(database, 'sluice', 0)
  })

  test('while a batch is in COMMIT on a half-open connection', async ({ database, queue }) => {
    const { proxy, sluice } = await startHalf(database)
    const steps = new Steps()
    const subscription = sluice.pipeline(queue).handle(steps.handle).subscribe()
    await put(sluice, queue, [1])
    const { end } = await steps.next()
    proxy.blackHole('sluice')
    end()
    await subscription.drain({ timeout: 0 })
    proxy.loseHalfOpen()
    await waitFor(async () => (await unlockedPayloads(database, queue)).length === 1, {
      what: 'the message to be free',
    })
    await sluice.stop({ timeout: 0 })
  })

  test('and refuses an option that it does not have', async ({ sluice }) => {
    const options = { timeoutMs: 5 } as { readonly timeout?: number }
    await expect(sluice.stop(options)).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })
})

const APPLICATION = 'silent'

/** Batches go through the proxy, the control connection does not. */
async function startHalf(database: TestDatabase, connectTimeout = 3_000) {
  const proxy = await startProxy(database.url)
  const sluice = startTestSluice({ url: proxy.url }, { directConnection: database.url, connectTimeout })
  await sluice.start()
  return { proxy, sluice }
}

async function startPool(database: TestDatabase): Promise<{ readonly proxy: TcpProxy; readonly pool: pg.Pool }> {
  const proxy = await startProxy(database.url)
  const pool = openPool({ connectionString: proxy.url, application_name: APPLICATION, pipeline: true })
  onTestFinished(() => pool.end())
  return { proxy, pool }
}
