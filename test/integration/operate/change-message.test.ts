import { describe, expect } from 'vitest'
import { z } from 'zod'
import { retryLater, snooze } from '../../../src/message.ts'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const ROW = `SELECT payload, headers, priority, type, schema_version, max_attempts,
  extract(epoch FROM expires_at - due_at)::integer AS life, due_at <= clock_timestamp() AS due FROM sluice.message WHERE queue = $1`

const LOOKED = `SELECT FROM pg_stat_activity a JOIN sluice.message m ON a.query_start > m.due_at
  WHERE m.queue = $1 AND a.datname = current_database() AND a.application_name = 'sluice' AND a.query LIKE '%ROLLBACK%'`

describe('change', () => {
  test('writes what is given, and leaves the rest', async ({ sluice, queue, database }) => {
    const [id] = await put(sluice, queue, [{ n: 1 }], { headers: { a: 1 }, type: 'a.b', delay: '1h' })
    expect(await sluice.operate.messages.change(queue, id!, { priority: 0 })).toEqual({
      result: 'changed',
      state: 'scheduled',
    })
    const rest = { schema_version: 1, max_attempts: null, life: null, due: false }
    expect(await database.sql(ROW, [queue])).toEqual([
      { payload: { n: 1 }, headers: { a: 1 }, priority: 0, type: 'a.b', ...rest },
    ])
    const changes = { payload: [2], headers: {}, type: 'c', schemaVersion: 2, maxAttempts: 3, ttl: '10s' } as const
    await sluice.operate.messages.change(queue, id!, changes)
    expect(await database.sql(ROW, [queue])).toEqual([
      { payload: [2], headers: {}, priority: 0, type: 'c', schema_version: 2, max_attempts: 3, life: 10, due: false },
    ])
  })

  test('of a priority is seen by a worker that sleeps', async ({ sluice, queue }) => {
    const [begun, go] = [deferred(), deferred()]
    const handled: unknown[] = []
    const pipeline = sluice
      .pipeline(queue, { batchSize: 1, concurrency: 1 })
      .handle(async ({ payload }) => {
        begun.resolve()
        await go.promise
        handled.push(payload)
      })
      .start()
    const ids = await put(sluice, queue, [1, 2, 3])
    await begun.promise
    await sluice.operate.messages.change(queue, ids[2]!, { priority: 0 })
    go.resolve()
    await pipeline.drain()
    await sluice
      .pipeline(queue)
      .handle(({ payload }) => void handled.push(payload))
      .runOnce()
    expect(handled.toSorted()).toEqual([1, 2, 3])
  })

  test('of a message that falls due before the change is committed lets it begin', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    const [id] = await put(sluice, queue, [1], { delay: '3s' })
    const handled: unknown[] = []
    sluice
      .pipeline(queue)
      .handle(({ payload }) => void handled.push(payload))
      .start()
    await raisedFlag(database, queue)
    const client = await database.pool.connect()
    await client.query('BEGIN')
    await sluice.operate.messages.change(queue, id!, { payload: 2 }, { tx: client })
    // It has passed over the locked row, and sleeps again.
    await waitFor(async () => (await database.sql(LOOKED, [queue])).length > 0, { what: 'a look when it is due' })
    await raisedFlag(database, queue)
    await client.query('COMMIT')
    client.release()
    await waitFor(() => handled.length > 0, { what: 'the message, before the poll' })
    expect(handled).toEqual([2])
  })

  test('refuses what is in hand, dead or unknown, and says so', async ({ sluice, queue }) => {
    const [id] = await put(sluice, queue, [1])
    const claim = await sluice.claim(queue)
    expect(await sluice.operate.messages.change(queue, id!, { payload: 2 })).toEqual({
      result: 'refused',
      state: 'in_flight',
    })
    expect(await sluice.operate.messages.runNow(queue, id!)).toEqual({ result: 'refused', state: 'in_flight' })
    await claim?.settle(id!)
    expect(await sluice.operate.messages.reschedule(queue, id!, { delay: 1 })).toEqual({
      result: 'refused',
      state: 'unknown',
    })
  })

  test('takes payloads as large as an enqueue does', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { payloadLimitBytes: 10 })
    const id = await sluice.enqueue(sluice.ownTransaction, queue, 'short')
    const change = sluice.operate.messages.change(queue, id, { payload: 'longer than ten' })
    await expect(change).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' })
    expect(await sluice.operate.messages.change(queue, id, { payload: 'ten long' })).toMatchObject({
      result: 'changed',
    })
  })

  test('checks the payload by the schema, and everything else', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: { schema: z.object({ n: z.number() }) } } })
    const id = await sluice.enqueue(sluice.ownTransaction, queue, { n: 1 })
    const wrong = { n: 'one' } as unknown as { n: number }
    await expect(sluice.operate.messages.change(queue, id, { payload: wrong })).rejects.toMatchObject({
      code: 'PAYLOAD_SCHEMA',
    })
    await expect(sluice.operate.messages.change(queue, id, { priority: 10 })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    })
    await expect(sluice.operate.messages.change(queue, id, {})).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    const both = { delay: 1, dueAt: new Date() } as unknown as { delay: number }
    await expect(sluice.operate.messages.reschedule(queue, id, both)).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    expect(await sluice.operate.messages.change(queue, id, { payload: { n: 2 } })).toMatchObject({ result: 'changed' })
  })
})

describe('reschedule and run now', () => {
  test('move the due time, and the end of the life with it', async ({ sluice, queue, database }) => {
    const [id] = await put(sluice, queue, [1], { delay: '1h', ttl: '5m' })
    expect(await sluice.operate.messages.reschedule(queue, id!, { delay: '2h' })).toEqual({
      result: 'changed',
      state: 'scheduled',
    })
    expect(await database.sql(ROW, [queue])).toMatchObject([{ life: 300, due: false }])
    expect(await sluice.operate.messages.runNow(queue, id!)).toEqual({ result: 'changed', state: 'scheduled' })
    expect(await database.sql(ROW, [queue])).toMatchObject([{ life: 300, due: true }])
    const past = await sluice.operate.messages.reschedule(queue, id!, { dueAt: new Date('2001-01-01') })
    expect(past).toEqual({ result: 'changed', state: 'ready' })
  })

  test('wake a worker that sleeps', async ({ sluice, queue, log }) => {
    const [id] = await put(sluice, queue, [1], { delay: '1h' })
    const handled = deferred()
    const pipeline = sluice
      .pipeline(queue)
      .handle(() => handled.resolve())
      .start()
    await log.first('pipeline.started')
    await sluice.operate.messages.runNow(queue, id!)
    await handled.promise
    await pipeline.drain()
  })

  for (const mode of ['transactional', 'leased'] as const) {
    test(`of a ${mode} message that holds its key keep the order`, async ({ sluice, queue }) => {
      const [first] = await put(sluice, queue, ['first', 'next'], { orderingKey: 'key' })
      const handled: unknown[] = []
      let fail = true
      const run = () =>
        sluice
          .pipeline(queue, { mode: mode as 'transactional' })
          .handle(({ payload }) => {
            handled.push(payload)
            return fail ? retryLater({ after: '1h' }) : undefined
          })
          .runOnce()
      await run()
      fail = false
      expect(await sluice.operate.messages.reschedule(queue, first!, { delay: '2h' })).toMatchObject({
        result: 'changed',
      })
      await run()
      expect(handled).toEqual(['first'])
      expect((await sluice.operate.messages.list({ queue, held: true })).messages).toMatchObject([{ heldBy: first }])
      expect(await sluice.operate.messages.runNow(queue, first!)).toEqual({ result: 'changed', state: 'retrying' })
      await run()
      expect(handled).toEqual(['first', 'first', 'next'])
    })
  }

  describe.each(['transactional', 'leased'] as const)('in %s mode, of a message that was snoozed', (mode) => {
    test.for([{}, { orderingKey: 'key' }])('take nothing of its life: %o', async (options, { sluice, queue }) => {
      const [id] = await put(sluice, queue, [1], { ...options, ttl: '1h' })
      let calls = 0
      const pipeline = sluice.pipeline(queue, { mode: mode as 'transactional' }).handle(() => {
        calls += 1
        return calls === 1 ? snooze({ after: '1d' }) : undefined
      })
      await pipeline.runOnce()
      const { expiresAt } = (await sluice.operate.messages.get(queue, id!))!
      await sluice.operate.messages.runNow(queue, id!)
      expect(await sluice.operate.messages.get(queue, id!)).toMatchObject({ state: 'ready', expiresAt })
      await pipeline.runOnce()
      expect(calls).toBe(2)
    })
  })

  test('let one that holds its key begin also if a delayed one of the key falls due before its retry', async ({
    sluice,
    queue,
  }) => {
    const [first] = await put(sluice, queue, ['first', 'next'], { orderingKey: 'key' })
    await put(sluice, queue, ['delayed'], { orderingKey: 'key', delay: '30m' })
    const handled: unknown[] = []
    const pipeline = sluice.pipeline(queue).handle(({ payload, attempt }) => {
      handled.push(payload)
      return payload === 'first' && attempt === 1 ? retryLater({ after: '1h' }) : undefined
    })
    await pipeline.runOnce()
    await sluice.operate.messages.runNow(queue, first!)
    await pipeline.runOnce()
    expect(handled).toEqual(['first', 'first', 'next'])
  })

  test('of the second of two that were snoozed together hold the key until its new time', async ({
    sluice,
    queue,
    database,
  }) => {
    const [, second] = await put(sluice, queue, [1, 2], { orderingKey: 'key' })
    await sluice
      .pipeline(queue)
      .handleBatch((messages) => messages.map(() => snooze({ after: '1h' })))
      .runOnce()
    await sluice.operate.messages.reschedule(queue, second!, { delay: '5h' })
    const held = `SELECT to_timestamp((held -> 'key' ->> 1)::bigint / 1000000) > clock_timestamp() + interval '4 hours' AS longer
      FROM sluice.slot WHERE queue = $1 AND held <> '{}'`
    expect(await database.sql(held, [queue])).toEqual([{ longer: true }])
  })

  test('of one that holds its key are refused as busy while a batch has its slot', async ({
    sluice,
    queue,
    database,
  }) => {
    const [first] = await put(sluice, queue, ['first'], { orderingKey: 'key' })
    await sluice
      .pipeline(queue)
      .handle(() => retryLater({ after: '1h' }))
      .runOnce()
    const client = await database.pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('SELECT FROM sluice.slot WHERE queue = $1 FOR NO KEY UPDATE', [queue])
      expect(await sluice.operate.messages.runNow(queue, first!)).toEqual({ result: 'busy', state: 'retrying' })
      await client.query('ROLLBACK')
    } finally {
      client.release()
    }
    expect(await sluice.operate.messages.runNow(queue, first!)).toEqual({ result: 'changed', state: 'retrying' })
  })

  test('a lease that has run out ends with the change, and counts', async ({ sluice, queue, database }) => {
    const [id] = await put(sluice, queue, [1])
    await sluice.claim(queue)
    await database.sql('UPDATE sluice.message SET due_at = clock_timestamp() WHERE queue = $1', [queue])
    expect(await sluice.operate.messages.reschedule(queue, id!, { delay: '1h' })).toEqual({
      result: 'changed',
      state: 'ready',
    })
    expect(await sluice.operate.messages.get(queue, id!)).toMatchObject({ state: 'retrying', attempt: 1, claim: null })
  })
})

describe('clear', () => {
  test('counts first, removes what matches, and leaves what is in hand', async ({ sluice, queue }) => {
    await put(sluice, queue, [1, 2, 3], { type: 'a' })
    const others = await put(sluice, queue, [4, 5], { type: 'b' })
    const claim = await sluice.claim(queue, { limit: 1 })
    expect(await sluice.operate.queues.clear(queue, { type: 'a', dryRun: true })).toBe(2)
    expect(await sluice.operate.queues.clear(queue, { type: 'a' })).toBe(2)
    expect(await sluice.operate.queues.clear(queue, { state: 'scheduled' })).toBe(0)
    expect((await sluice.operate.messages.list({ queue, order: 'oldest' })).messages.map(({ id }) => id)).toEqual([
      claim?.messages[0]?.id,
      ...others,
    ])
    expect(await sluice.operate.queues.clear(queue)).toBe(2)
    expect(await claim?.settle(claim.messages)).toMatchObject({ refused: [] })
  })

  test('goes on step by step, and opens the keys that were held', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [0], { orderingKey: 'key' })
    await sluice
      .pipeline(queue)
      .handle(() => retryLater({ after: '1h' }))
      .runOnce()
    await database.sql(
      `INSERT INTO sluice.message (queue, payload, tenant) SELECT $1, '1', 'big' FROM generate_series(1, 2500)`,
      [queue],
    )
    expect(await sluice.operate.queues.clear(queue, { tenant: 'big' })).toBe(2500)
    expect(await sluice.operate.queues.clear(queue)).toBe(1)
    expect(await database.sql('SELECT held FROM sluice.slot WHERE queue = $1', [queue])).toEqual([{ held: {} }])
  })

  test('refuses a state that is none', async ({ sluice, queue }) => {
    const state = 'in_flight' as 'ready'
    await expect(sluice.operate.queues.clear(queue, { state })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })
})
