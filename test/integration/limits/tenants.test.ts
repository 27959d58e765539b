import { describe, expect } from 'vitest'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const BOTH = ['transactional', 'leased'] as const

describe.each(BOTH)('limits of tenants, in %s mode', (mode) => {
  const options = { mode, concurrency: 8, batchSize: 4 } as never

  test('each tenant has its messages in flight, over all processes', async ({ queue, database }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 2 })
    const sluices = [startTestSluice(database), startTestSluice(database)]
    const [first = startTestSluice(database)] = sluices
    for (const tenant of ['a', 'b', 'c']) await put(first, queue, Array(12).fill(tenant), { tenant })
    const running = new Map<unknown, number>()
    let most = 0
    let handled = 0
    for (const sluice of sluices) {
      sluice
        .pipeline(queue, options)
        .handle(async ({ payload }) => {
          running.set(payload, (running.get(payload) ?? 0) + 1)
          most = Math.max(most, running.get(payload) ?? 0)
          await new Promise((resolve) => setTimeout(resolve, 3))
          running.set(payload, (running.get(payload) ?? 0) - 1)
          handled += 1
        })
        .start()
    }
    await waitFor(() => handled === 36, { what: 'all to be handled' })
    expect(most).toBeLessThanOrEqual(2)
  })

  test('a tenant at its limit does not block others, and its messages stay as they are', async ({
    queue,
    database,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 1 })
    await put(sluice, queue, Array(20).fill('greedy'), { tenant: 'greedy' })
    await put(sluice, queue, ['modest'], { tenant: 'modest' })
    await put(sluice, queue, ['nobody'])
    await put(sluice, queue, ['keyed'], { orderingKey: 'k' })
    const go = deferred()
    const seen: unknown[] = []
    sluice
      .pipeline(queue, { ...(options as object), batchSize: 1 } as never)
      .handle(async ({ payload }) => {
        seen.push(payload)
        if (payload === 'greedy') await go.promise
      })
      .start()
    await waitFor(() => seen.length === 4, { what: 'one of each to be handled' })
    expect(seen.toSorted()).toEqual(['greedy', 'keyed', 'modest', 'nobody'])
    const rows = await database.sql(
      'SELECT count(*)::integer AS n, max(m.attempt) AS attempt FROM (SELECT * FROM sluice.message WHERE queue = $1 AND due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED) m',
      [queue],
    )
    expect(rows).toEqual([{ n: 19, attempt: 0 }])
    go.resolve()
    await waitFor(() => seen.length === 23, { what: 'the others to be handled' })
  })

  test('claims of one message pass over no tenant, although messages without one wait beside them', async ({
    queue,
    database,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 5 })
    for (const tenant of ['a', 'b', 'c']) await put(sluice, queue, Array(40).fill(tenant), { tenant })
    await put(sluice, queue, Array(40).fill('none'))
    const seen: unknown[] = []
    sluice
      .pipeline(queue, { ...(options as object), concurrency: 1, batchSize: 1 } as never)
      .handle(({ payload }) => {
        seen.push(payload)
      })
      .start()
    await waitFor(() => seen.length >= 40, { what: 'a quarter of them to be handled' })
    const counts = ['a', 'b', 'c', 'none'].map((name) => seen.slice(0, 40).filter((one) => one === name).length)
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(8)
  })

  test('each tenant has its own tokens', async ({ queue, database, sluice }) => {
    await setQueueColumns(database, queue, { tenant_rate: 1, tenant_rate_ms: 3_600_000, tenant_rate_burst: 2 })
    const seen: unknown[] = []
    sluice
      .pipeline(queue, options)
      .handle(({ payload }) => {
        seen.push(payload)
      })
      .start()
    for (const tenant of ['a', 'b', 'a', 'c', 'b']) await put(sluice, queue, [tenant, tenant], { tenant })
    await waitFor(() => seen.length === 6, { what: 'two of each to be handled' })
    expect(seen.toSorted()).toEqual(['a', 'a', 'b', 'b', 'c', 'c'])
    await setQueueColumns(database, queue, { tenant_rate_burst: 50, tenant_rate: 50, tenant_rate_ms: 1_000 })
    await waitFor(() => seen.length === 10, { what: 'the others to be handled' })
  })
})

describe('tenants', () => {
  test('share a claim out in rotation: a burst of one delays another by its share', async ({
    queue,
    database,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 10_000 })
    await put(sluice, queue, Array(200).fill('burst'), { tenant: 'm.burst' })
    for (const tenant of ['a', 'z']) await put(sluice, queue, Array(5).fill(tenant), { tenant })
    const order: unknown[] = []
    await sluice
      .pipeline(queue, { batchSize: 6 })
      .handle(({ payload }) => {
        order.push(payload)
      })
      .runOnce()
    expect(order).toHaveLength(210)
    // Two of each per claim of six, until the small ones have none left.
    expect(order.slice(0, 18).filter((payload) => payload !== 'burst')).toHaveLength(10)
  })

  test.for([2, 3, 5])(
    'have even shares of claims of %i beside messages without a tenant',
    async (batchSize, { queue, database, sluice }) => {
      await setQueueColumns(database, queue, { tenant_concurrency: 1_000 })
      for (const tenant of ['a', 'b']) await put(sluice, queue, Array(40).fill(tenant), { tenant })
      await put(sluice, queue, Array(40).fill('none'))
      const order: unknown[] = []
      await sluice
        .pipeline(queue, { batchSize })
        .handle(({ payload }) => {
          order.push(payload)
        })
        .runOnce()
      const counts = ['a', 'b', 'none'].map((name) => order.slice(0, 60).filter((one) => one === name).length)
      expect(Math.min(...counts), String(counts)).toBeGreaterThanOrEqual(12)
    },
  )

  test('have all of a claim that a single message without a tenant leaves, without another transaction', async ({
    queue,
    database,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 1_000, concurrency: 1_000 })
    await put(sluice, queue, Array(20).fill('tenant'), { tenant: 'a' })
    await put(sluice, queue, ['none'])
    const batches: number[] = []
    await sluice
      .pipeline(queue, { batchSize: 10, concurrency: 1 })
      .handleBatch((messages) => {
        batches.push(messages.length)
      })
      .runOnce()
    expect(batches).toEqual([10, 10, 1])
  })

  test('come one after another in claims of one', async ({ queue, database, sluice }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 5 })
    for (const tenant of ['a', 'b', 'c']) await put(sluice, queue, [tenant, tenant, tenant], { tenant })
    const order: unknown[] = []
    await sluice
      .pipeline(queue, { batchSize: 1 })
      .handle(({ payload }) => {
        order.push(payload)
      })
      .runOnce()
    expect(order).toEqual(['a', 'b', 'c', 'a', 'b', 'c', 'a', 'b', 'c'])
  })

  test('go by priority, and then by due time', async ({ queue, database, sluice }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 5 })
    await put(sluice, queue, ['later'], { tenant: 'a', priority: 7 })
    await put(sluice, queue, ['first', 'second'], { tenant: 'a', priority: 2 })
    const order: unknown[] = []
    await sluice
      .pipeline(queue, { batchSize: 1 })
      .handle(({ payload }) => {
        order.push(payload)
      })
      .runOnce()
    expect(order).toEqual(['first', 'second', 'later'])
  })

  test('bound claims and pops as well', async ({ queue, database, sluice }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 2 })
    for (const tenant of ['a', 'b']) await put(sluice, queue, [tenant, tenant, tenant], { tenant })
    const claim = await sluice.claim(queue, { limit: 10 })
    expect(claim?.messages.map(({ payload }) => payload).toSorted()).toEqual(['a', 'a', 'b', 'b'])
    expect(await sluice.pop(queue, { limit: 10 })).toEqual([])
    await claim?.settle(claim.messages.filter(({ payload }) => payload === 'a'))
    expect((await sluice.pop(queue, { limit: 10 })).map(({ payload }) => payload)).toEqual(['a'])
    await claim?.release()
  })

  test('have their turns in each of two queues from which one session pops in turn', async ({
    queue,
    database,
    sluice,
  }) => {
    const queues = [queue, `${queue}.other`]
    for (const one of queues) {
      await setQueueColumns(database, one, { tenant_concurrency: 10 })
      for (const tenant of ['a', 'b']) await put(sluice, one, [tenant, tenant], { tenant })
    }
    const client = await database.pool.connect()
    try {
      const order: unknown[] = []
      for (const one of [...queues, ...queues]) {
        const { rows } = await client.query('SELECT payload FROM sluice.pop($1)', [one])
        order.push(rows[0]?.payload)
      }
      expect(order).toEqual(['a', 'a', 'b', 'b'])
    } finally {
      client.release(true)
    }
  })

  describe.each(['a claim', 'a pipeline'])('each have their turn where %s begins anew each time', (by) => {
    const takeTen = async (database: TestDatabase, queue: string) => {
      const sluice = startTestSluice(database)
      const taken: unknown[] = []
      if (by === 'a claim') taken.push(...(await sluice.pop(queue, { limit: 10 })).map(({ payload }) => payload))
      else {
        await sluice
          .pipeline(queue, { batchSize: 10, concurrency: 1 })
          .handleBatch((messages) => {
            taken.push(...messages.map(({ payload }) => payload))
            // It claims no more.
            void sluice.stop()
          })
          .runOnce()
      }
      await sluice.stop()
      return taken
    }

    test('and takes ten of thirty', async ({ queue, database, sluice }) => {
      await setQueueColumns(database, queue, { tenant_concurrency: 5 })
      for (let n = 10; n < 40; n += 1) await put(sluice, queue, Array(5).fill(n), { tenant: `tenant ${n}` })
      await put(sluice, queue, ['of nobody'])
      const taken: unknown[] = []
      for (let turn = 0; turn < 3; turn += 1) taken.push(...(await takeTen(database, queue)))
      expect(taken.toSorted()).toEqual(Array.from({ length: 30 }, (_, n) => n + 10))
      // The fourth has been round.
      for (let turn = 0; turn < 2; turn += 1) taken.push(...(await takeTen(database, queue)))
      expect(taken).toContain('of nobody')
    })

    test('and meets more than 200 at their limit', async ({ queue, database, sluice }) => {
      await setQueueColumns(database, queue, { tenant_concurrency: 1 })
      for (let n = 100; n < 550; n += 1) await put(sluice, queue, ['at its limit'], { tenant: `tenant ${n}` })
      await sluice.claim(queue, { limit: 450 })
      for (let n = 100; n < 550; n += 1) await put(sluice, queue, ['at its limit'], { tenant: `tenant ${n}` })
      await put(sluice, queue, ['free'], { tenant: 'the last' })
      const taken: unknown[] = []
      for (let turn = 0; turn < 4; turn += 1) taken.push(...(await takeTen(database, queue)))
      expect(taken).toEqual(['free'])
    })
  })

  test.for([
    ['ago', '-2 s', 'tenant 2'],
    ['in a moment', '1 h', 'tenant 1'],
  ] as const)(
    'have their turn noted by a worker that noted it %s',
    async ([, offset, ends], { queue, database, sluice }) => {
      await setQueueColumns(database, queue, { tenant_concurrency: 1 })
      for (const tenant of ['tenant 1', 'tenant 2']) await put(sluice, queue, [1], { tenant })
      const claim = (turn: string | null) =>
        database.sql('SELECT FROM sluice_private.prepare_claim($1, 1, $2, false)', [queue, turn])
      const noted = () => database.sql('SELECT tenant FROM sluice.turn WHERE queue = $1', [queue])
      await claim(null)
      expect(await noted()).toEqual([{ tenant: 'tenant 1' }])
      await database.sql('UPDATE sluice.turn SET noted_at = clock_timestamp() + $2::interval WHERE queue = $1', [
        queue,
        offset,
      ])
      await claim('tenant 1')
      expect(await noted()).toEqual([{ tenant: ends }])
      // Somebody who claims once and goes always notes it.
      await claim(null)
      expect(await noted()).not.toEqual([{ tenant: ends }])
    },
  )

  test('have no ordering keys', async ({ queue, sluice, database }) => {
    await expect(
      sluice.enqueue(sluice.ownTransaction, queue, 1, { tenant: 'a', orderingKey: 'k' }),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(
      database.sql(`SELECT sluice.enqueue($1, '1', tenant => 'a', ordering_key => 'k')`, [queue]),
    ).rejects.toMatchObject({ code: '23514' })
  })

  test('leave nothing behind once they have no messages', async ({ queue, sluice, database }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 2, tenant_rate: 10, tenant_rate_ms: 10 })
    for (const tenant of ['a', 'b']) await put(sluice, queue, [tenant], { tenant })
    await sluice.pop(queue, { limit: 10 })
    await put(sluice, queue, ['b'], { tenant: 'b' })
    const left = (table: string) =>
      database.sql(`SELECT DISTINCT tenant FROM sluice.${table} WHERE queue = $1`, [queue])
    expect(await left('permit')).toHaveLength(2)
    await waitFor(
      async () => {
        await database.sql('SELECT sluice.prune_leftovers()')
        return (await left('bucket')).length === 1
      },
      { what: 'the bucket of a to be full, and gone' },
    )
    expect(await left('permit')).toEqual([{ tenant: 'b' }])
    expect(await left('bucket')).toEqual([{ tenant: 'b' }])
  })

  test('keep the tokens of a bucket that takes longer to fill than an interval can say', async ({
    queue,
    sluice,
    database,
  }) => {
    const year = 365 * 86_400_000
    await setQueueColumns(database, queue, { tenant_rate: 1, tenant_rate_ms: year, tenant_rate_burst: 1_000_000 })
    await put(sluice, queue, [1], { tenant: 'a' })
    expect(await sluice.pop(queue)).toHaveLength(1)
    await database.sql('SELECT sluice.prune_leftovers()')
    expect(await database.sql('SELECT tenant FROM sluice.bucket WHERE queue = $1', [queue])).toEqual([{ tenant: 'a' }])
  })

  test('get tokens from now on if the clock was set back', async ({ queue, sluice, database }) => {
    await setQueueColumns(database, queue, { tenant_rate: 50 })
    await put(sluice, queue, ['handled'], { tenant: 'a' })
    await database.sql(
      `INSERT INTO sluice.bucket (queue, tenant, tokens, at) VALUES ($1, 'a', 0, now() + interval '1 hour')`,
      [queue],
    )
    let handled = 0
    sluice
      .pipeline(queue)
      .handle(() => {
        handled += 1
      })
      .start()
    await waitFor(() => handled === 1, { what: 'a token' })
  })

  test('are a label where the queue has no limits for them', async ({ queue, sluice }) => {
    for (const tenant of ['a', 'b']) await put(sluice, queue, [tenant, tenant], { tenant })
    const order: unknown[] = []
    await sluice
      .pipeline(queue)
      .handle(({ payload }) => {
        order.push(payload)
      })
      .runOnce()
    expect(order).toEqual(['a', 'a', 'b', 'b'])
  })
})
