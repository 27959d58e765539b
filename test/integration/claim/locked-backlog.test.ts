import { describe, expect, onTestFinished } from 'vitest'
import type { Sluice } from '../../../src/sluice.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** Messages by SQL, one of each key, all with the same payload. */
async function fill(database: TestDatabase, queue: string, payload: string, keys: readonly string[]) {
  await database.sql(
    `INSERT INTO sluice.message (queue, payload, ordering_key) SELECT $1, to_jsonb($2::text), k.key FROM unnest($3::text[]) k (key)`,
    [queue, payload, keys],
  )
}

/** A session of psql, for example, with one statement over all that is there. */
async function lockAll(database: TestDatabase, queue: string) {
  const session = await database.pool.connect()
  onTestFinished(() => session.release())
  await session.query('BEGIN')
  await session.query('SELECT FROM sluice.message WHERE queue = $1 FOR UPDATE', [queue])
  return session
}

async function keysOfOneSlot(database: TestDatabase, count: number): Promise<readonly string[]> {
  const rows = await database.sql<{ key: string }>(
    `SELECT k.key FROM (SELECT 'key ' || n AS key FROM generate_series(1, 1000000) n) k
     WHERE hashtextextended(k.key COLLATE "C", 0) & 255 = 7 LIMIT $1`,
    [count],
  )
  return rows.map(({ key }) => key)
}

const named = (name: string, count: number) => Array.from({ length: count }, (_, at) => `${name} ${at}`)

const PIPELINES = {
  transactional: (sluice: Sluice, queue: string) => sluice.pipeline(queue, { concurrency: 4, batchSize: 4 }),
  leased: (sluice: Sluice, queue: string) => sluice.pipeline(queue, { mode: 'leased', concurrency: 4 }),
} as const

describe('a session that has locked a backlog of messages with ordering keys', () => {
  test('lets the one behind a hundred keys of its slot go, one by one', async ({ database, queue }) => {
    const [last, ...others] = await keysOfOneSlot(database, 101)
    await fill(database, queue, 'locked', others)
    const session = await lockAll(database, queue)
    await fill(database, queue, 'behind', [last!])
    const handled: unknown[] = []
    const pipeline = startTestSluice(database)
      .pipeline(queue, { concurrency: 1, batchSize: 1 })
      .handle(({ payload }) => void handled.push(payload))
      .start()
    await waitFor(() => handled.length > 0, { what: 'the message behind all others to be handled' })
    expect(handled).toEqual(['behind'])
    await session.query('ROLLBACK')
    await pipeline.stop()
  })

  for (const [mode, pipelineOf] of Object.entries(PIPELINES))
    test(`lets those of other keys go, beside a ${mode} pipeline`, async ({ database, queue }) => {
      await fill(database, queue, 'locked', named('locked', 1_000))
      const session = await lockAll(database, queue)
      const handled: unknown[] = []
      const pipeline = pipelineOf(startTestSluice(database), queue)
        .handle(({ payload }) => void handled.push(payload))
        .start()
      await fill(database, queue, 'new', named('new', 50))
      await waitFor(() => handled.length >= 50, { what: 'the messages of other keys to be handled' })
      expect(new Set(handled)).toEqual(new Set(['new']))
      await session.query('ROLLBACK')
      await pipeline.stop()
    })

  test('lets the one behind a hundred keys of its slot go, for claims', async ({ database, sluice, queue }) => {
    const [last, ...others] = await keysOfOneSlot(database, 101)
    await fill(database, queue, 'locked', others)
    const session = await lockAll(database, queue)
    await fill(database, queue, 'behind', [last!])
    const claim = await sluice.claim(queue, { limit: 10 })
    expect(claim?.messages.map(({ payload }) => payload)).toEqual(['behind'])
    await session.query('ROLLBACK')
  })

  test('costs a claim no more than a thousand locked messages', async ({ database, queue }) => {
    await fill(database, queue, 'locked', await keysOfOneSlot(database, 3_000))
    const session = await lockAll(database, queue)
    const [explained] = await database.sql(
      "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(*) FROM sluice.claim($1, 1, '30 s')",
      [queue],
    )
    await session.query('ROLLBACK')
    const [{ Plan: plan }] = explained!['QUERY PLAN'] as [{ Plan: Readonly<Record<string, number>> }]
    expect(plan['Shared Hit Blocks']).toBeLessThan(20_000)
  })
})
