import { describe, expect } from 'vitest'
import { MOST_WALKED } from '../../../src/table/claim/claim-slots.ts'
import { keysOf } from '../../support/rows/claim-session.ts'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const BOTH = ['transactional', 'leased'] as const

/** Messages of a key behind one that has failed and is tried again in an hour. */
async function closedKey({ sql }: TestDatabase, queue: string, key: string, count: number): Promise<void> {
  const insert = `INSERT INTO sluice.message (queue, ordering_key, payload, due_at, attempt, failed_at, last_error, lease)
    VALUES ($1, $2, '"failed"', now() + interval '1 hour', 1, now(), 'no', 0)`
  await sql(insert, [queue, key])
  const behind = `INSERT INTO sluice.message (queue, ordering_key, payload) SELECT $1, $2, '"behind"' FROM generate_series(1, $3::integer)`
  await sql(behind, [queue, key, count])
}

describe.each(BOTH)('messages with ordering keys in a queue with limits for tenants, in %s mode', (mode) => {
  const options = { mode, concurrency: 4, batchSize: 4 } as never

  test('are handled beside those of tenants and those without, each key in its order and one at a time', async ({
    queue,
    database,
  }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 2, concurrency: 6 })
    const sluices = [startTestSluice(database), startTestSluice(database)]
    const [first = startTestSluice(database)] = sluices
    const kinds = [{ tenant: 'a' }, { tenant: 'b' }, { orderingKey: 'k' }, { orderingKey: 'l' }, {}]
    for (const kind of kinds)
      await put(
        first,
        queue,
        Array.from({ length: 15 }, (_, n) => n),
        kind,
      )
    const seen = new Map<string, unknown[]>()
    const running = new Map<string, number>()
    const most = new Map<string, number>()
    const count = (name: string, by: number) => {
      running.set(name, (running.get(name) ?? 0) + by)
      most.set(name, Math.max(most.get(name) ?? 0, running.get(name) ?? 0))
    }
    for (const sluice of sluices) {
      sluice
        .pipeline(queue, options)
        .handle(async ({ payload, tenant, orderingKey }) => {
          const name = tenant ?? orderingKey ?? 'none'
          for (const one of [name, 'all']) count(one, 1)
          await new Promise((resolve) => setTimeout(resolve, 2))
          seen.set(name, [...(seen.get(name) ?? []), payload])
          for (const one of [name, 'all']) count(one, -1)
        })
        .start()
    }
    await waitFor(() => [...seen.values()].flat().length === 75, { what: 'all to be handled' })
    for (const key of ['k', 'l']) {
      expect(seen.get(key)).toEqual(Array.from({ length: 15 }, (_, n) => n))
      expect(most.get(key)).toBe(1)
    }
    expect(Math.max(most.get('a') ?? 0, most.get('b') ?? 0)).toBeLessThanOrEqual(2)
    expect(most.get('all')).toBeLessThanOrEqual(6)
  })

  test('behind a closed key hold up no tenant and no other key of their slot', async ({ queue, database, sluice }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 2 })
    const { same } = await keysOf(database)
    const [closed, free] = same
    await closedKey(database, queue, closed, MOST_WALKED * 2 + 500)
    await put(sluice, queue, ['free'], { orderingKey: free })
    for (const tenant of ['a', 'b']) await put(sluice, queue, [tenant, tenant], { tenant })
    await put(sluice, queue, ['of nobody'])
    const seen: unknown[] = []
    sluice
      .pipeline(queue, options)
      .handle(({ payload }) => void seen.push(payload))
      .start()
    await waitFor(() => seen.length === 6, { what: 'all that may be handled' })
    expect(seen.toSorted()).toEqual(['a', 'a', 'b', 'b', 'free', 'of nobody'])
    await database.sql(
      `UPDATE sluice.message SET due_at = clock_timestamp() - interval '1 s' WHERE queue = $1 AND attempt > 0`,
      [queue],
    )
    await put(sluice, queue, ['wake'], { tenant: 'a' })
    await waitFor(() => seen.includes('behind'), { what: 'those behind the key' })
    expect(seen.indexOf('failed')).toBeLessThan(seen.indexOf('behind'))
    await sluice.stop({ timeout: 0 })
  })

  test('have their turns beside tenants with a backlog, and tenants beside theirs', async ({
    queue,
    database,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 1_000 })
    for (const tenant of ['a', 'b']) await put(sluice, queue, Array(60).fill('of a tenant'), { tenant })
    for (let n = 0; n < 60; n += 1) await put(sluice, queue, ['of a key'], { orderingKey: `key ${n}` })
    await put(sluice, queue, ['of nobody'])
    const seen: unknown[] = []
    await sluice
      .pipeline(queue, { mode, concurrency: 1, batchSize: 4 } as never)
      .handle(({ payload }) => void seen.push(payload))
      .runOnce()
    expect(seen).toHaveLength(181)
    const early = seen.slice(0, 60)
    for (const payload of ['of a tenant', 'of a key', 'of nobody']) expect(early).toContain(payload)
    expect(early.filter((payload) => payload === 'of a key').length).toBeLessThan(45)
    expect(early.filter((payload) => payload === 'of a tenant').length).toBeLessThan(55)
  })

  test('that cannot be taken use no tokens', async ({ queue, database, sluice }) => {
    await setQueueColumns(database, queue, {
      tenant_concurrency: 10,
      rate: 1,
      rate_ms: 3_600_000,
      rate_burst: 6,
    })
    await closedKey(database, queue, 'closed', 20)
    for (const tenant of ['a', 'b', 'c']) await put(sluice, queue, [tenant, tenant], { tenant })
    const seen: unknown[] = []
    sluice
      .pipeline(queue, { mode, concurrency: 1, batchSize: 4 } as never)
      .handle(({ payload }) => void seen.push(payload))
      .start()
    await waitFor(() => seen.length === 6, { what: 'as many as there are tokens' })
    expect(seen.toSorted()).toEqual(['a', 'a', 'b', 'b', 'c', 'c'])
  })
})

test('messages with ordering keys, of tenants and of nobody each have their turn where a pipeline begins anew each time', async ({
  queue,
  database,
}) => {
  await setQueueColumns(database, queue, { tenant_concurrency: 5 })
  const filling = startTestSluice(database)
  for (const kind of [{ tenant: 'a' }, { orderingKey: 'k' }, {}]) await put(filling, queue, Array(80).fill(1), kind)
  const met = new Set<string>()
  await waitFor(
    async () => {
      const sluice = startTestSluice(database)
      await sluice
        .pipeline(queue, { batchSize: 1, concurrency: 1 })
        .handleBatch((messages) => {
          for (const { tenant, orderingKey } of messages) met.add(tenant ?? orderingKey ?? 'none')
          void sluice.stop()
        })
        .runOnce()
      await sluice.stop()
      return met.size === 3
    },
    { what: 'one of each kind' },
  )
})
