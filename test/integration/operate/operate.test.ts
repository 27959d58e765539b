import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { createSluice, type Operate } from '../../../src/index.ts'
import { bury, register } from '../../support/rows/operations.ts'
import { untilRecorded } from '../../support/rows/rows.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

describe('sluice.operate', () => {
  test('counts what waits, runs, fails and is dead in each queue', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1, 2])
    await put(sluice, queue, [3], { delay: '1h' })
    await bury(database, { queue })
    const [status] = await sluice.operate.queues.list({ queue })
    expect(status).toEqual({
      queue,
      ready: 2,
      held: 0,
      scheduled: 1,
      retrying: 0,
      expired: 0,
      inFlight: 0,
      dead: 1,
      oldestReadyAgeMs: expect.any(Number),
      nextDueAt: expect.any(Date),
      nextDueInMs: expect.any(Number),
      workers: 0,
      pausedAt: null,
    })
    const now = await sluice.operate.now()
    expect(Math.abs(status!.nextDueAt!.getTime() - now.getTime() - status!.nextDueInMs!)).toBeLessThan(60_000)
    expect((await sluice.operate.queues.list()).map((one) => one.queue)).toContain(queue)
    expect(await sluice.operate.queues.list({ queue: 'nothing.here' })).toEqual([])
  })

  test('names the queues of messages, dead letters and workers', async ({ database, sluice, queue }) => {
    await put(sluice, `${queue}.live`, [1])
    await bury(database, { queue: `${queue}.dead` })
    await register(database, { name: 'consumer', queues: [`${queue}.consumed`], alive: true })
    const names = await sluice.operate.queues.names()
    expect(names.filter((name) => name.startsWith(`${queue}.`))).toEqual([
      `${queue}.consumed`,
      `${queue}.dead`,
      `${queue}.live`,
    ])
    expect(names).toEqual(names.toSorted())
  })

  test('shows a message with its payload as a value and with every digit', async ({ database, sluice, queue }) => {
    const payload = '{"big": 12345678901234567890, "price": 1.10}'
    const [{ id } = { id: '' }] = await database.sql<{ id: string }>(
      `SELECT sluice.enqueue($1, $2::text::jsonb, type => 'a.b', ordering_key => 'k', headers => '{"a": 1}') AS id`,
      [queue, payload],
    )
    expect(await sluice.operate.messages.get(queue, id)).toEqual({
      queue,
      id,
      state: 'ready',
      type: 'a.b',
      schemaVersion: 1,
      payload: JSON.parse(payload),
      payloadJson: payload,
      headers: { a: 1 },
      headersJson: '{"a": 1}',
      orderingKey: 'k',
      position: null,
      priority: 5,
      attempt: 0,
      maxAttempts: null,
      tenant: null,
      dedupeKey: null,
      retryPolicy: null,
      leaseMs: null,
      enqueuedAt: expect.any(Date),
      enqueuedAgoMs: expect.any(Number),
      dueAt: expect.any(Date),
      dueInMs: expect.any(Number),
      expiresAt: null,
      failedAt: null,
      lastError: null,
      failures: [],
      heldBy: null,
      lockedBy: null,
      leasedUntil: null,
      claim: null,
      worker: null,
    })
    expect(await sluice.operate.messages.get(queue, '1')).toBeUndefined()
  })

  test('peeks in the order in which messages fall due', async ({ sluice, queue }) => {
    const [later] = await put(sluice, queue, [1], { delay: '1h' })
    const [now] = await put(sluice, queue, [2])
    expect((await sluice.operate.messages.peek(queue)).map(({ id }) => id)).toEqual([now, later])
    expect((await sluice.operate.messages.peek(queue, { limit: 1 })).map(({ id }) => id)).toEqual([now])
  })

  test('shows what a worker has in hand, and the worker', async ({ database, sluice, queue }) => {
    const done = deferred()
    const [id = ''] = await put(sluice, queue, [1])
    sluice
      .pipeline(queue)
      .handle(() => done.promise)
      .subscribe()
    await untilRecorded(database, queue, 1)
    const { operate } = startTestSluice(database)
    const [message] = await operate.workers.inFlight({ queue })
    expect(message).toEqual({
      queue,
      id,
      attempt: 1,
      claimedAt: expect.any(Date),
      runningForMs: expect.any(Number),
      batch: expect.stringMatching(/^\d+$/),
      workerId: expect.stringMatching(/^\d+$/),
      worker: expect.any(String),
      workerAlive: true,
      leasedUntil: null,
      position: null,
      claim: null,
    })
    const [worker] = await operate.workers.list({ queue })
    expect(worker).toMatchObject({ id: message!.workerId, name: message!.worker, alive: true, inFlight: 1 })
    expect(await operate.messages.get(queue, id)).toMatchObject({ state: 'in_flight', worker: worker!.name })
    expect(await operate.workers.inFlight({ queue: 'another' })).toEqual([])
    expect(await operate.workers.list({ queue: 'another' })).toEqual([])
    done.resolve()
  })
})

describe('an operator', () => {
  test('is no worker, holds four connections at most, and has none when it has stopped', async ({
    database,
    queue,
  }) => {
    const name = `operator of ${queue}`
    const sluice = createSluice({ connection: { connectionString: database.url, application_name: name }, log: false })
    const sessions = () => database.sql('SELECT FROM pg_stat_activity WHERE application_name = $1', [name])
    await using blocker = await locking(database, 'sluice.dead_letter')
    const looks = Array.from({ length: 12 }, () => sluice.operate.queues.list({ queue }))
    const waiting = `SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`
    await waitFor(async () => (await database.sql(waiting, [name])).length === 4, { what: 'four looks to wait' })
    expect(await sessions()).toHaveLength(4)
    await blocker[Symbol.asyncDispose]()
    await Promise.all(looks)
    expect(await database.sql('SELECT FROM sluice.workers WHERE $1 = ANY (queues)', [queue])).toEqual([])
    await sluice.stop()
    await waitFor(async () => (await sessions()).length === 0, { what: 'the sessions to end' })
    await expect(sluice.operate.queues.names()).rejects.toMatchObject({ code: 'STOPPED' })
  })

  test('can be a program that ends when it has stopped, and even when it has not', async ({ database }) => {
    const index = JSON.stringify(new URL('../../../src/index.ts', import.meta.url).href)
    for (const end of ['await sluice.stop()', '']) {
      const program = `
        import { createSluice } from ${index}
        const sluice = createSluice({ connection: ${JSON.stringify(database.url)} })
        console.log((await sluice.operate.workers.list()).length >= 0)
        ${end}`
      const args = ['--input-type=module', '--eval', program]
      const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 60_000 })
      expect(stdout).toBe('true\n')
    }
  })

  test('leaves the settings of a transaction of the application alone', async ({ database, queue }) => {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    onTestFinished(() => client.end())
    const [id = ''] = await bury(database, { queue })
    await client.query('BEGIN; SET LOCAL plan_cache_mode = force_generic_plan')
    await startTestSluice(database).operate.deadLetters.redrive({ queue, ids: [id] }, { tx: client })
    expect((await client.query('SHOW plan_cache_mode')).rows).toEqual([{ plan_cache_mode: 'force_generic_plan' }])
    await client.query('ROLLBACK')
  })

  test('is told when there is no schema, and finds it when it has been made', async () => {
    await using database = await createTestDatabase({ migrated: false })
    const sluice = startTestSluice(database)
    await expect(sluice.operate.queues.list()).rejects.toMatchObject({ code: 'SCHEMA_MISSING' })
    await sluice.migrate()
    expect(await sluice.operate.queues.list()).toEqual([])
  })

  test('is told that nobody is there', async () => {
    const sluice = startTestSluice({ url: 'postgres://127.0.0.1:1/nowhere' })
    await expect(sluice.operate.workers.list()).rejects.toMatchObject({ code: 'UNREACHABLE' })
  })

  test.for([
    ['a name that no queue can have', (at: Operate) => at.messages.peek('no spaces'), 'QUEUE_NAME_INVALID'],
    ['a limit of none', (at: Operate) => at.messages.peek('q', { limit: 0 }), 'OPTION_INVALID'],
    ['a limit beyond all', (at: Operate) => at.messages.list({ queue: 'q', limit: 10_001 }), 'OPTION_INVALID'],
    ['an option that there is not', (at: Operate) => at.queues.list({ name: 'q' } as object), 'OPTION_INVALID'],
    [
      'a state that there is not',
      (at: Operate) => at.messages.list({ queue: 'q', state: 'dead' as 'ready' }),
      'OPTION_INVALID',
    ],
    ['an id that is no number', (at: Operate) => at.messages.get('q', '1; DROP'), 'OPTION_INVALID'],
    ['an id beyond bigint', (at: Operate) => at.messages.get('q', '9223372036854775808'), 'OPTION_INVALID'],
    ['a page of no page', (at: Operate) => at.deadLetters.list({ after: '17' }), 'OPTION_INVALID'],
    [
      'a page before all times',
      (at: Operate) => at.deadLetters.list({ after: '-999999999999999999.1' }),
      'OPTION_INVALID',
    ],
    ['no Date', (at: Operate) => at.deadLetters.summarise({ diedBefore: new Date(Number.NaN) }), 'OPTION_INVALID'],
    ['neither a queue nor all', (at: Operate) => at.deadLetters.delete({} as { allQueues: true }), 'OPTION_INVALID'],
    [
      'a queue and all',
      (at: Operate) => at.deadLetters.redrive({ queue: 'q', allQueues: true } as never),
      'OPTION_INVALID',
    ],
    ['a NUL', (at: Operate) => at.messages.list({ queue: 'q', orderingKey: '\0' }), 'OPTION_INVALID'],
    [
      'a pool',
      (at: Operate) => at.deadLetters.delete({ queue: 'q' }, { tx: new pg.Pool() as never }),
      'NOT_IN_TRANSACTION',
    ],
  ] as const)('is refused %s', async ([, ask, code]) => {
    // Nothing listens there: what is refused has not been sent.
    const { operate } = startTestSluice({ url: 'postgres://127.0.0.1:1/nowhere' })
    await expect(ask(operate)).rejects.toMatchObject({ code })
  })

  test('of defined queues is refused others', async () => {
    const { operate } = startTestSluice({ url: 'postgres://127.0.0.1:1/nowhere' }, { queues: { known: {} } })
    for (const look of [
      // @ts-expect-error no such queue
      () => operate.messages.peek('knwon'),
      // @ts-expect-error no such queue
      () => operate.deadLetters.redrive({ queue: 'knwon' }),
    ]) {
      await expect(look()).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN', message: expect.stringContaining('"known"') })
    }
  })
})

/** A transaction that lets nobody read a table. */
async function locking({ url }: TestDatabase, table: string): Promise<AsyncDisposable> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(`BEGIN; LOCK TABLE ${table}`)
  let ended: Promise<void> | undefined
  return { [Symbol.asyncDispose]: () => (ended ??= client.end()) }
}
