import { expect } from 'vitest'
import { clearQueue, runDue } from '../../../src/testing.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'

const TABLES = [
  ...[
    'message',
    'dead_letter',
    'completed_message',
    'dedupe',
    'kept_key',
    'receipt',
    'claim',
    'cancel_request',
    'crash',
  ],
  ...['bucket', 'turn'],
]

test('clearQueue makes a queue as if it were new, and leaves the others and its settings', async ({
  database,
  sluice,
  queue,
}) => {
  const names = [queue, `${queue}.other`]
  const counts = async (name: string) => {
    const columns = TABLES.map(
      (table) => `(SELECT count(*) FROM sluice.${table} WHERE queue = $1)::integer AS ${table}`,
    )
    const [row] = await database.sql<Record<string, number>>(`SELECT ${columns.join(', ')}`, [name])
    return row ?? {}
  }
  // Before the worker starts, which then knows them from its start.
  for (const name of names) {
    await sluice.operate.queues.settings.set(name, { history: '1d', rate: { limit: 100, per: '1s' } })
  }
  for (const name of names) {
    await put(sluice, name, ['bad', 'good', 'held'], { orderingKey: 'a' })
    const dedupe = { key: 'K', for: '1h' } as const
    await sluice.enqueue(sluice.ownTransaction, name, 'deduped', { dedupe })
    await database.sql(`SELECT sluice.received($1, 'shop', '1')`, [name])
    const retry = { kind: 'fixed', delay: '1h' } as const
    const pipeline = sluice.pipeline(name, { maxAttempts: 2, retry }).handle(({ payload }) => {
      if (payload === 'bad') raise()
    })
    await runDue(pipeline)
    await put(sluice, name, ['dead'], { maxAttempts: 1, type: 'dies' })
    await runDue(sluice.pipeline(name).handle(() => raise()))
    await put(sluice, name, ['claimed'])
    await sluice.claim(name, { lease: '1h' })
  }
  const before = await counts(queue)
  for (const table of [
    'message',
    'dead_letter',
    'completed_message',
    'dedupe',
    'kept_key',
    'receipt',
    'claim',
    'bucket',
  ])
    expect(before[table], table).toBeGreaterThan(0)

  await clearQueue(sluice, queue)

  expect(Object.values(await counts(queue))).toEqual(TABLES.map(() => 0))
  expect(await counts(`${queue}.other`)).toEqual(before)
  expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({ historyMs: 86_400_000 })
  const seen: unknown[] = []
  await put(sluice, queue, ['again'], { orderingKey: 'a' })
  await sluice.enqueue(sluice.ownTransaction, queue, 'deduped again', { dedupe: { key: 'K' } })
  await runDue(sluice.pipeline(queue).handle(({ payload }) => void seen.push(payload)))
  expect(seen.toSorted()).toEqual(['again', 'deduped again'])
})

test('clearQueue waits for a batch in flight', async ({ sluice, queue }) => {
  const [begun, ends] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const pipeline = sluice.pipeline(queue).handle(() => {
    begun.resolve()
    return ends.promise
  })
  await put(sluice, queue, ['a'])
  const settled = pipeline.runOnce()
  await begun.promise
  let cleared = false
  const clearing = clearQueue(sluice, queue).then(() => {
    cleared = true
  })
  await put(sluice, `${queue}.other`, ['takes a round trip'])
  expect(cleared).toBe(false)
  ends.resolve()
  await clearing
  expect((await settled).counts.acked).toBe(1)
})

test('clearQueue takes a message from a holder of its lease', async ({ sluice, queue }) => {
  const lost = Promise.withResolvers<unknown>()
  const options = { mode: 'leased', lease: '1h' } as const
  const pipeline = sluice.pipeline(queue, options).handle(async (_, { transaction }) => {
    await clearQueue(sluice, queue)
    lost.resolve(await transaction(() => undefined).catch((error: unknown) => error))
  })
  await put(sluice, queue, ['a'])
  await pipeline.runOnce()
  expect(await lost.promise).toMatchObject({ code: 'LEASE_LOST' })
})

test('clearQueue refuses a stream, and a name that is not defined', async ({ database }) => {
  const sluice = startTestSluice(database, { queues: { emails: {} }, streams: { orders: {} } })
  await expect(clearQueue(sluice, 'orders' as 'emails')).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' })
  await expect(clearQueue(sluice, 'emials' as 'emails')).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' })
})
