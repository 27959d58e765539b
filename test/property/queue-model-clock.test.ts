import { describe, expect, onTestFinished } from 'vitest'
import { installSqlClock, onSqlClock, stepSqlClock } from '../../faults/environment/sql-clock.ts'
import { retryLater } from '../../src/message.ts'
import type { Sluice } from '../../src/sluice.ts'
import { raisedFlag } from '../support/rows/flag.ts'
import { createTestDatabase, type TestDatabase } from '../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** `test` with a database of the test's own, whose clock can be stepped, and a Sluice that goes by it. */
const test = base
  .extend('clocked', async () => {
    const database = await createTestDatabase()
    onTestFinished(() => database[Symbol.asyncDispose]())
    await installSqlClock(database.sql)
    return database
  })
  .extend('worker', ({ clocked }) => startTestSluice(clocked, { connection: onSqlClock(clocked.url) }))

describe('the settable clock', () => {
  test('is the only clock of what the schema defines', async ({ clocked }) => {
    const strings = await clocked.sql<{ text: string }>(
      `SELECT pg_get_expr(d.adbin, d.adrelid) AS text FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid
       WHERE c.relnamespace = 'sluice'::regnamespace
       UNION ALL SELECT p.prosrc FROM pg_proc p WHERE p.pronamespace = 'sluice'::regnamespace
       UNION ALL SELECT pg_get_viewdef(v.oid) FROM pg_class v WHERE v.relnamespace = 'sluice'::regnamespace AND v.relkind = 'v'`,
    )
    const named = strings.flatMap(({ text }) => text.match(/[\w.]*clock_timestamp\(\)/g) ?? [])
    expect(named.length).toBeGreaterThan(10)
    expect(new Set(named)).toEqual(new Set(['clock.clock_timestamp()']))
  })

  test('is read by every statement that reads a clock', async ({ clocked, worker, queue }) => {
    await stepSqlClock(clocked.sql, 40 * DAY_MS)
    const [id = ''] = await put(worker, queue, [1])
    await put(worker, queue, [2], { delay: '1h' })
    const [settled] = await worker
      .pipeline(queue)
      .handle(() => retryLater({ after: '2h' }))
      .runOnce()
    expect(settled).toMatchObject({ message: { id } })
    expect(
      await daysAhead(clocked, `SELECT due_at - interval '2 hours' AS at FROM sluice.message WHERE id = ${id}`),
    ).toBe(40)
    expect(await daysAhead(clocked, `SELECT failed_at AS at FROM sluice.message WHERE id = ${id}`)).toBe(40)
    expect(await daysAhead(clocked, `SELECT enqueued_at AS at FROM sluice.message WHERE id = ${id}`)).toBe(40)
    expect(await daysAhead(clocked, 'SELECT seen_at AS at FROM sluice.worker')).toBe(40)
    expect(Math.round((settled?.message.dueAt.getTime() ?? 0) - Date.now()) / DAY_MS).toBeCloseTo(40, 1)
    const [state] = await clocked.sql('SELECT scheduled, retrying FROM sluice.queues WHERE queue = $1', [queue])
    expect(state).toEqual({ scheduled: '1', retrying: '1' })
  })
})

describe('a clock that is stepped under a running worker', () => {
  test('forwards: what falls due by it is handled when the worker looks next', async ({ clocked, worker, queue }) => {
    const ids = await put(worker, queue, [1, 2], { delay: '1h' })
    const handled = await consumed(clocked, worker, queue)
    await stepSqlClock(clocked.sql, HOUR_MS)
    await waitFor(() => handled.length === 2, { what: 'both messages' })
    expect(handled).toEqual(ids)
  })

  test('backwards: what is enqueued after the step, and due before what was handled, is found', async ({
    clocked,
    worker,
    queue,
  }) => {
    const handled = await consumed(clocked, worker, queue)
    const before = await put(worker, queue, [1, 2])
    await waitFor(() => handled.length === 2, { what: 'the messages before the step' })
    await stepSqlClock(clocked.sql, -DAY_MS)
    const after = await put(worker, queue, [3, 4])
    await waitFor(() => handled.length === 4, { what: 'the messages after the step' })
    expect(handled).toEqual([...before, ...after])
  })

  test('backwards: a message that was due waits for its time to come again', async ({ clocked, worker, queue }) => {
    const [early = ''] = await put(worker, queue, ['early'])
    await stepSqlClock(clocked.sql, -HOUR_MS)
    const handled = await consumed(clocked, worker, queue)
    const [late = ''] = await put(worker, queue, ['late'])
    await waitFor(() => handled.length === 1, { what: 'the message after the step' })
    expect(handled).toEqual([late])
    await stepSqlClock(clocked.sql, HOUR_MS)
    await waitFor(() => handled.length === 2, { what: 'the message before the step' })
    expect(handled).toEqual([late, early])
  })

  test('backwards: a leased message with a key that fails waits for its retry all the same', async ({
    clocked,
    worker,
    queue,
  }) => {
    await put(worker, queue, [1], { orderingKey: 'key' })
    await stepSqlClock(clocked.sql, -2 * HOUR_MS)
    const { counts } = await worker
      .pipeline(queue, { mode: 'leased' })
      .handle(() => retryLater({ after: '1h' }))
      .runOnce()
    expect(counts).toMatchObject({ retried: 1, dead: 0 })
  })

  test('backwards: so does one of a claim', async ({ clocked, worker, queue }) => {
    const [id = ''] = await put(worker, queue, [1], { orderingKey: 'key' })
    await stepSqlClock(clocked.sql, -2 * HOUR_MS)
    const claim = await worker.claim(queue)
    await claim?.settle(id, retryLater({ after: '1h' }))
    expect(await clocked.sql('SELECT attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([{ attempt: 1 }])
    expect(await worker.claim(queue)).toBeUndefined()
  })

  test('backwards: a leased message with a key that is given back may be taken at once', async ({
    clocked,
    worker,
    queue,
  }) => {
    await put(worker, queue, [1, 2], { orderingKey: 'key' })
    await stepSqlClock(clocked.sql, -2 * HOUR_MS)
    const begun = Promise.withResolvers<void>()
    const pipeline = worker
      .pipeline(queue, { mode: 'leased' })
      .handle((_, { signal }) => {
        begun.resolve()
        return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      })
      .start()
    await begun.promise
    await pipeline.stop()
    const others = worker.pipeline(queue).handle(() => undefined)
    // The server may not have noticed yet that the last claim of the stopped pipeline is over, which has the slot locked.
    let acked = 0
    await waitFor(
      async () => {
        acked += (await others.runOnce()).counts.acked
        return acked === 2
      },
      { what: 'both messages' },
    )
  })
})

/** Starts to consume, waits until the worker sleeps, and returns the ids that it handles from then on. */
async function consumed(clocked: TestDatabase, worker: Sluice, queue: string): Promise<string[]> {
  const handled: string[] = []
  worker
    .pipeline(queue)
    .handle((message) => void handled.push(message.id))
    .subscribe()
  await raisedFlag(clocked, queue)
  return handled
}

/** By how many days an instant is ahead of the real time, rounded. */
async function daysAhead(database: TestDatabase, text: string): Promise<number> {
  const [row] = await database.sql<{ days: number }>(
    `SELECT round(extract(epoch FROM t.at - clock_timestamp()) / 86400)::integer AS days FROM (${text}) t`,
  )
  return row?.days ?? Number.NaN
}
