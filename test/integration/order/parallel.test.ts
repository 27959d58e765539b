import { expect } from 'vitest'
import type { Sluice } from '../../../src/sluice.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

const KEYS = 200
const MESSAGES_PER_KEY = 20

/** A draw between 0 and 1 that depends on nothing but its arguments. */
function draw(...of: readonly number[]): number {
  let state = 0x9e3779b9
  for (const value of of) state = Math.imul(state ^ value, 0x85ebca6b) ^ (state >>> 13)
  return (Math.imul(state ^ (state >>> 16), 0xc2b2ae35) >>> 0) / 2 ** 32
}

// What a handler writes commits or not with its message, so the table tells what happened, in which order.
test('two Sluices keep the order of 200 keys, and do everything once, while one message in twelve fails', async ({
  database,
  sluice,
  queue,
}) => {
  await database.sql('CREATE TABLE audit (seq bigserial, key integer, n integer, worker integer, attempt integer)')
  const numbers = Array.from({ length: MESSAGES_PER_KEY }, (_, n) => n)
  for (let key = 0; key < KEYS; key++) {
    await put(
      sluice,
      queue,
      numbers.map((n) => ({ key, n })),
      { orderingKey: `key ${key}` },
    )
  }
  let failures = 0
  const consume = (consumer: Sluice, worker: number) =>
    consumer
      .pipeline(queue, { concurrency: 3, batchSize: 16, retry: { kind: 'fixed', delay: 10 } })
      .handle(async ({ payload, attempt }, { tx }) => {
        const { key, n } = payload as { key: number; n: number }
        await tx.query('INSERT INTO audit (key, n, worker, attempt) VALUES ($1, $2, $3, $4)', [key, n, worker, attempt])
        if (draw(key, n, attempt) < 1 / 12) {
          failures += 1
          throw new Error('failed by chance')
        }
      })
      .subscribe()
  consume(startTestSluice(database), 1)
  consume(startTestSluice(database), 2)
  await untilEmpty(database, queue, 90_000)

  const [totals] = await database.sql(
    `SELECT count(*)::integer AS handled, count(DISTINCT (key, n))::integer AS messages,
            count(*) FILTER (WHERE attempt > 1)::integer AS again, count(DISTINCT worker)::integer AS workers FROM audit`,
  )
  expect(totals).toMatchObject({ handled: KEYS * MESSAGES_PER_KEY, messages: KEYS * MESSAGES_PER_KEY, workers: 2 })
  expect(totals?.again).toBeGreaterThan(100)
  expect(failures).toBeGreaterThan(100)
  const outOfOrder = await database.sql(
    'SELECT * FROM (SELECT key, n, lag(n, 1, -1) OVER (PARTITION BY key ORDER BY seq) AS before FROM audit) a WHERE n <> before + 1',
  )
  expect(outOfOrder).toEqual([])
})

test('two Sluices keep the order of a whole queue between them', async ({ database, sluice, queue }) => {
  await database.sql('CREATE TABLE sequence_audit (seq bigserial, n integer, attempt integer)')
  const numbers = Array.from({ length: 300 }, (_, n) => n)
  await put(sluice, queue, numbers)
  for (const consumer of [startTestSluice(database), startTestSluice(database)]) {
    consumer
      .pipeline(queue, { ordered: true, concurrency: 2, batchSize: 7, retry: { kind: 'fixed', delay: 5 } })
      .handle(async ({ payload, attempt }, { tx }) => {
        await tx.query('INSERT INTO sequence_audit (n, attempt) VALUES ($1, $2)', [payload, attempt])
        if (draw(Number(payload), attempt) < 1 / 20) throw new Error('failed by chance')
      })
      .subscribe()
  }
  await untilEmpty(database, queue)
  const rows = await database.sql<{ n: number }>('SELECT n FROM sequence_audit ORDER BY seq')
  expect(rows.map(({ n }) => n)).toEqual(numbers)
})
