import { describe, expect } from 'vitest'
import { HUNDRED_YEARS_MS } from '../../../src/basics/time/duration.ts'
import { runDue } from '../../../src/testing.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'

const ODD = ['infinity', '-infinity', '294276-12-31 23:59:59+00', '4714-11-24 00:00:00+00 BC'] as const

describe('a time that a Date cannot show is refused where a producer writes it', () => {
  for (const column of ['due_at', 'expires_at'] as const) {
    test.for(ODD)(`${column}: %s`, async (time, { database, queue }) => {
      const text = `INSERT INTO sluice.message (queue, payload, ${column}) VALUES ($1, '1', $2)`
      await expect(database.sql(text, [queue, time])).rejects.toMatchObject({
        code: '23514',
        constraint: expect.stringContaining('in the years 1 to 9999'),
      })
    })
  }

  test.for(['0001-01-01 00:00:00+00', '9999-12-31 23:59:59.999999+00'])(
    'and the first and the last one are not: %s',
    async (time, { database, queue }) => {
      const text = `INSERT INTO sluice.message (queue, payload, due_at, expires_at) VALUES ($1, '1', $2::timestamptz, $2)`
      await database.sql(text, [queue, time])
    },
  )

  test('as is a time in milliseconds of more than a hundred years', async ({ database, queue }) => {
    const longer = HUNDRED_YEARS_MS + 1
    for (const ms of [longer, '9223372036854775807']) {
      const text = `INSERT INTO sluice.message (queue, payload, dedupe_key, dedupe_ms) VALUES ($1, '1', 'k', $2)`
      await expect(database.sql(text, [queue, ms])).rejects.toMatchObject({ code: '23514' })
    }
    for (const column of [
      'delay_ms',
      'ttl_ms',
      'history_ms',
      'dead_letter_retention_ms',
      'rate_ms',
      'tenant_rate_ms',
    ]) {
      const text = `INSERT INTO sluice.queue (queue, ${column}) VALUES ($1, $2)`
      await expect(database.sql(text, [queue, longer]), column).rejects.toMatchObject({ code: '23514' })
      await expect(database.sql(text, [`${queue}.${column}`, HUNDRED_YEARS_MS]), column).resolves.toEqual([])
    }
  })
})

/** No producer may write `enqueued_at` and `failed_at`; the owner may, and any time where the constraints are gone. */
describe('a row with a time that nobody can read, which the owner has written, stops no other', () => {
  test.beforeEach(({ database, queue }) => oddRows(database, queue))

  for (const ordered of [false, true]) {
    test(`in transactional mode, ordered: ${ordered}`, async ({ sluice, queue }) => {
      const handled: unknown[] = []
      await runDue(sluice.pipeline(queue, { ordered }).handle(({ payload }) => void handled.push(payload)))
      expect(handled).toEqual(expect.arrayContaining(['harmless', 'harmless with a key']))
    })
  }

  test('in leased mode', async ({ sluice, queue }) => {
    const handled: unknown[] = []
    await runDue(sluice.pipeline(queue, { mode: 'leased' }).handle(({ payload }) => void handled.push(payload)))
    expect(handled).toEqual(expect.arrayContaining(['harmless', 'harmless with a key']))
  })

  test('and one that is handled has a date that can be printed', async ({ sluice, queue }) => {
    const years = new Set<number>()
    await runDue(
      sluice.pipeline(queue).handle(({ enqueuedAt, dueAt }) => {
        for (const date of [enqueuedAt, dueAt]) years.add(Number(date.toISOString().slice(0, 4)))
      }),
    )
    expect([...years]).toEqual(expect.arrayContaining([1, 9_999]))
  })

  test('in claims, whose messages are settled together', async ({ sluice, queue }) => {
    const handled: unknown[] = []
    for (let claim = await sluice.claim(queue, { limit: 100 }); claim !== undefined; ) {
      for (const { payload } of claim.messages) handled.push(payload)
      await claim.settle(claim.messages)
      claim = await sluice.claim(queue, { limit: 100 })
    }
    expect(handled).toEqual(expect.arrayContaining(['harmless', 'harmless with a key']))
  })

  test('in pop', async ({ sluice, queue }) => {
    const handled: unknown[] = []
    for (let popped = await sluice.pop(queue, { limit: 100 }); popped.length > 0; ) {
      for (const { payload } of popped) handled.push(payload)
      popped = await sluice.pop(queue, { limit: 100 })
    }
    expect(handled).toEqual(expect.arrayContaining(['harmless', 'harmless with a key']))
  })

  test('in what operators see', async ({ sluice, queue, database }) => {
    const [{ rows } = { rows: 0 }] = await database.sql<{ rows: number }>(
      'SELECT count(*)::integer AS rows FROM sluice.message WHERE queue = $1',
      [queue],
    )
    const { messages } = await sluice.operate.messages.list({ queue, limit: 1_000 })
    expect(messages).toHaveLength(rows)
    const queues = await sluice.operate.queues.list()
    expect(queues.find((status) => status.queue === queue)).toBeDefined()
  })

  test('nor to have one of its slot run now', async ({ sluice, queue }) => {
    const [id] = await put(sluice, queue, ['later'], { orderingKey: 'k', delay: '1h' })
    const pipeline = sluice.pipeline(queue).handle(({ payload }) => {
      if (payload === 'harmless with a key') throw new Error('holds its key')
    })
    await pipeline.runOnce()
    const { messages } = await sluice.operate.messages.list({ queue, orderingKey: 'k', state: 'retrying' })
    for (const known of [id!, ...messages.map((message) => message.id)]) {
      expect(await sluice.operate.messages.runNow(queue, known)).toMatchObject({ result: 'changed' })
    }
  })
})

/** Messages with each odd time in each column, without and with a key, and two that are as they should be. */
async function oddRows(database: TestDatabase, queue: string): Promise<void> {
  await database.sql(`
    DO $$ DECLARE bound record; BEGIN
      FOR bound IN
        SELECT c.conname, c.contypid::regtype AS type FROM pg_constraint c
        JOIN pg_attribute a ON a.atttypid = c.contypid AND a.attrelid = 'sluice.message'::regclass
      LOOP
        EXECUTE format('ALTER DOMAIN %s DROP CONSTRAINT %I', bound.type, bound.conname);
      END LOOP;
    END $$`)
  for (const orderingKey of [null, 'k']) {
    for (const time of ODD) {
      for (const column of ['due_at', 'expires_at', 'enqueued_at', 'failed_at']) {
        await database.sql(
          `INSERT INTO sluice.message (queue, payload, ordering_key, ${column}) VALUES ($1, to_jsonb($2::text), $3, $4)`,
          [queue, `${column} ${time}`, orderingKey, time],
        )
      }
    }
    await database.sql(
      `INSERT INTO sluice.message (queue, payload, ordering_key, dedupe_key, dedupe_ms) VALUES ($1, '"kept"', $2, $3, 9223372036854775807)`,
      [queue, orderingKey, `key ${orderingKey}`],
    )
    await database.sql(
      'INSERT INTO sluice.message (queue, payload, ordering_key) VALUES ($1, to_jsonb($2::text), $3)',
      [queue, orderingKey === null ? 'harmless' : 'harmless with a key', orderingKey],
    )
  }
}
