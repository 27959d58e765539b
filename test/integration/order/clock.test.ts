import { describe, expect, onTestFinished } from 'vitest'
import { installSqlClock, onSqlClock, stepSqlClock } from '../../../faults/environment/sql-clock.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'

/** `test` with a database of the test's own, whose clock can be stepped, and a Sluice that goes by it. */
const test = base
  .extend('clocked', async () => {
    const database = await createTestDatabase()
    onTestFinished(() => database[Symbol.asyncDispose]())
    await installSqlClock(database.sql)
    return database
  })
  .extend('worker', ({ clocked }) => startTestSluice(clocked, { connection: onSqlClock(clocked.url) }))

const HOUR_MS = 3_600_000

describe('a clock that was set back', () => {
  for (const [what, options, message] of [
    ['a key', {}, { orderingKey: 'a' }],
    ['the whole queue', { ordered: true }, {}],
  ] as const) {
    test(`does not change the order of ${what}`, async ({ clocked, worker, queue }) => {
      const before = await put(worker, queue, [1, 2], message)
      await stepSqlClock(clocked.sql, -HOUR_MS)
      const after = await put(worker, queue, [3], message)
      const handled: string[] = []
      const pipeline = worker.pipeline(queue, options).handle(({ id }) => void handled.push(id))
      while ((await pipeline.runOnce()).length > 0);
      expect(handled).toEqual([...before, ...after])
    })
  }

  test('lets a message with a delay and a key wait for its time', async ({ clocked, worker, queue }) => {
    await put(worker, queue, [1], { orderingKey: 'a', delay: '1h' })
    await stepSqlClock(clocked.sql, -HOUR_MS)
    const after = await put(worker, queue, [2], { orderingKey: 'a' })
    const settled = await worker
      .pipeline(queue)
      .handle(() => undefined)
      .runOnce()
    expect(settled.map(({ message }) => message.id)).toEqual(after)
  })
})
