import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { expect, inject, onTestFinished } from 'vitest'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
import type { RunningPipeline } from '../../../src/index.ts'
import { createNumberedEffects, INSERT_NUMBERED } from '../../support/effects.ts'
import { EventLog } from '../../support/event-log.ts'
import { test as base } from '../../support/plans/counted.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { deferred } from '../../support/wait.ts'

/** Enough for what a handler does before it hangs, on a busy machine too. */
const SHORT = { timeout: 1_000, retry: { kind: 'fixed', delay: '1h' } } as const

/** Longer than anything takes, because the test's own clock stands still meanwhile. */
const LONG = { ...SHORT, timeout: 5_000 } as const

const test = base.extend('effects', { scope: 'file' }, ({ database }) => createNumberedEffects(database))

test('a handler that takes too long is told by its signal and left behind; its siblings commit', async ({
  database,
  counted,
  queue,
  effects,
}) => {
  const log = new EventLog(counted.sluice.events)
  const hangs = deferred()
  const aborted = deferred<unknown>()
  const attempts: unknown[] = []
  // First: a worker that goes to sleep meets an enqueue in flight now and then, and looks again after a moment. Here time
  // stands still.
  await put(counted.sluice, queue, [1, 2, 3])
  counted.sluice
    .pipeline(queue, LONG)
    .handle(async ({ payload, attempt }, { tx, signal }) => {
      attempts.push([payload, attempt])
      await tx.query(INSERT_NUMBERED, [queue, payload])
      if (payload !== 2) return
      signal.addEventListener('abort', () => aborted.resolve(signal.reason))
      hangs.resolve()
      await new Promise(() => undefined)
    })
    .subscribe()
  await hangs.promise
  await counted.pass(LONG.timeout)
  expect(await aborted.promise).toMatchObject({ code: 'HANDLER_TIMEOUT' })
  // The third was not started when the time of the batch was up, and came in the next one.
  await log.first('batch.committed', ({ retried }) => retried === 0)
  expect(await payloadsOf(database, queue)).toEqual([2])
  expect(await effects(queue)).toEqual([1, 3])
  expect(attempts).toEqual([
    [1, 1],
    [2, 1],
    [3, 1],
  ])
  expect(log.of('batch.committed')).toMatchObject([
    { acked: 1, retried: 1 },
    { acked: 1, retried: 0 },
  ])
  expect(log.of('message.failed')).toMatchObject([{ attempt: 1, error: expect.stringContaining('within 5000 ms') }])
})

test('the statement that it is running is cancelled, and what it tries next is refused', async ({
  sluice,
  queue,
  effects,
  log,
}) => {
  const refusals = deferred<readonly unknown[]>()
  sluice
    .pipeline(queue, SHORT)
    .handle(async (_, { tx }) => {
      await tx.query(INSERT_NUMBERED, [queue, 1])
      await tx.query('SAVEPOINT own')
      const errors = [
        await tx.query('SELECT pg_sleep(60)').catch((error: unknown) => error),
        await tx.query('ROLLBACK TO SAVEPOINT own').catch((error: unknown) => error),
        await tx.query('SELECT pg_sleep(60)').catch((error: unknown) => error),
      ]
      refusals.resolve(errors)
    })
    .subscribe()
  await put(sluice, queue, [1])
  expect(await refusals.promise).toMatchObject([
    { code: '57014' },
    { code: 'TRANSACTION_CLOSED' },
    { code: 'TRANSACTION_CLOSED' },
  ])
  expect(await log.first('batch.committed')).toMatchObject({ retried: 1 })
  expect(await effects(queue)).toEqual([])
})

test.for([['transactional'], ['leased']] as const)(
  'the error of a handler that waits for a lock says that a statement was running: %s',
  async ([mode], { database, sluice, queue, log }) => {
    await database.sql('CREATE TABLE IF NOT EXISTS account (id integer PRIMARY KEY, balance integer NOT NULL)')
    await database.sql('INSERT INTO account VALUES (1, 0) ON CONFLICT DO NOTHING')
    const holder = await database.pool.connect()
    onTestFinished(() => holder.release(true))
    await holder.query('BEGIN; UPDATE account SET balance = 1')
    const charge = (tx: HandlerTransaction) => tx.query('UPDATE account SET balance = 2')
    const pipeline =
      mode === 'leased'
        ? sluice
            .pipeline(queue, { ...SHORT, mode })
            .handle(async (_, { transaction }) => void (await transaction(charge)))
        : sluice.pipeline(queue, SHORT).handle(async (_, { tx }) => void (await charge(tx)))
    pipeline.subscribe()
    await put(sluice, queue, [1])
    const { error } = await log.first('message.failed')
    expect(error).toMatch(
      /^SluiceError: The handler: .* while a statement on its tx was running\. It may have waited for a lock/,
    )
  },
)

test('the error of a handler that waits for something else does not name a lock', async ({ sluice, queue, log }) => {
  sluice
    .pipeline(queue, SHORT)
    .handle(async (_, { tx }) => {
      await tx.query('SELECT 1')
      await new Promise(() => undefined)
    })
    .subscribe()
  await put(sluice, queue, [1])
  const { error } = await log.first('message.failed')
  expect(error).toMatch(/within 1000 ms, received no end\. Raise the pipeline's timeout, or pass the signal on$/)
})

test('a statement that the handler left running counts as its time', async ({ sluice, queue, log }) => {
  sluice
    .pipeline(queue, SHORT)
    .handle((_, { tx }) => void tx.query('SELECT pg_sleep(60)'))
    .subscribe()
  await put(sluice, queue, [1])
  expect(await log.first('batch.committed')).toMatchObject({ retried: 1 })
  expect(log.of('message.failed')).toMatchObject([{ error: expect.stringContaining('within 1000 ms') }])
})

test('an enqueue whose schema never answers is left behind when the time is up; refused later, it ends no process', async ({
  database,
  queue,
  effects,
}) => {
  const answer = deferred<StandardSchemaV1.Result<unknown>>()
  const schema: StandardSchemaV1 = { '~standard': { version: 1, vendor: 'test', validate: () => answer.promise } }
  const slow = `${queue}.slow`
  const sluice = startTestSluice(database, { queues: { [queue]: {}, [slow]: { schema } } })
  const log = new EventLog(sluice.events)
  let awaited: Promise<unknown> | undefined
  sluice
    .pipeline(queue, SHORT)
    .handle(async ({ payload }, { tx, enqueue }) => {
      await tx.query(INSERT_NUMBERED, [queue, payload])
      // One is awaited, and one is not.
      if (payload === 1) void enqueue(slow, {})
      if (payload === 1) return
      awaited = enqueue(slow, {})
      await awaited
    })
    .subscribe()
  await put(sluice, queue, [1])
  await log.first('batch.committed', ({ retried }) => retried === 1)
  await put(sluice, queue, [2])
  await log.first('message.failed', ({ id }) => id !== log.of('message.failed')[0]?.id)
  answer.resolve({ value: {} })
  await expect(awaited).rejects.toMatchObject({ code: 'TRANSACTION_CLOSED' })
  expect(await effects(queue)).toEqual([])
  expect(await payloadsOf(database, slow)).toEqual([])
})

test('a batch handler that takes too long fails all its messages', async ({ sluice, queue, effects, log }) => {
  sluice
    .pipeline(queue, SHORT)
    .handleBatch(async (_, { tx, signal }) => {
      await tx.query(INSERT_NUMBERED, [queue, 1])
      await sleep(60_000, undefined, { signal })
    })
    .subscribe()
  await put(sluice, queue, [1, 2])
  expect(await log.first('batch.committed')).toMatchObject({ acked: 0, retried: 2 })
  expect(await effects(queue)).toEqual([])
})

test('a handler that blocks the whole process is ended by the server; its batch comes again, and the process goes on', async ({
  database,
  sluice,
  queue,
  effects,
  log,
}) => {
  const calls: unknown[] = []
  sluice
    .pipeline(queue, { timeout: 1_000, retry: { kind: 'fixed', delay: 0 } })
    .handle(async ({ payload, attempt }, { tx }) => {
      calls.push(payload)
      await tx.query(INSERT_NUMBERED, [queue, payload])
      if (payload !== 2 || attempt > 1) return
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      blockUntilGone(database.url, rows[0]!.pid)
    })
    .subscribe()
  await put(sluice, queue, [1, 2, 3])
  await untilEmpty(database, queue)
  expect(log.of('batch.released')).toMatchObject([{ messages: 3 }])
  expect(calls).toEqual([1, 2, 1, 2, 3])
  expect(await effects(queue)).toEqual([1, 2, 3])
})

/** Holds up this whole process until the server has ended one of its own. */
function blockUntilGone(url: string, pid: number): void {
  const program = `
    import pg from 'pg'
    const [url, pid] = process.argv.slice(1)
    const client = new pg.Client(url)
    await client.connect()
    const there = async () => (await client.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid])).rowCount
    while (await there()) await new Promise((resolve) => setTimeout(resolve, 50))
    await client.end()`
  execFileSync(process.execPath, ['--input-type=module', '-e', program, url, String(pid)])
}

test.for(['idle_in_transaction_session_timeout', 'transaction_timeout'])(
  "a shorter %s of the database's own ends no batch, nor after a handler that resets all settings",
  async (setting, { database, sluice, queue }) => {
    if (setting === 'transaction_timeout' && inject('serverVersion') < 170_000) return
    const url = new URL(database.url)
    url.searchParams.set('options', `-c ${setting}=300`)
    const limited = startTestSluice(database, { connection: url.href })
    const handled: unknown[] = []
    const pipeline = limited.pipeline(queue, { retry: SHORT.retry }).handle(async ({ payload }, { tx }) => {
      handled.push(payload)
      if (payload === 1) await sleep(400)
      else await tx.query('SELECT pg_sleep(0.4)')
      await tx.query(payload === 2 ? `SET ${setting} = 0; RESET ALL` : 'RESET ALL')
    })
    await put(sluice, queue, [1, 2, 3])
    await pipeline.runOnce()
    expect(handled).toEqual([1, 2, 3])
    expect(await payloadsOf(database, queue)).toEqual([])
  },
)

test.skipIf(Number.parseInt(process.versions.node, 10) < 24)(
  'the timeout of a handler that awaits the end of its own pipeline says so, and that of the next handler does not',
  async ({ sluice, queue, log }) => {
    const began = deferred<RunningPipeline>()
    const running = sluice
      .pipeline(queue, SHORT)
      .handle(async ({ payload }, { signal }) => {
        if (payload === 'waits') await (await began.promise).ended
        await once(signal, 'abort')
      })
      .start()
    began.resolve(running)
    await put(sluice, queue, ['waits'])
    const waits = await log.first('message.failed')
    expect(waits.error).toContain(
      'It has read `ended` of its own pipeline, which resolves only after this handler: do not await it here. Raise',
    )
    await put(sluice, queue, ['sleeps'])
    const sleeps = await log.first('message.failed', ({ id }) => id !== waits.id)
    expect(sleeps.error).toContain('received no end. Raise')
  },
)
