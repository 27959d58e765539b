import { describe, expect, onTestFinished } from 'vitest'
import type { SluiceOptions } from '../../../src/config.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { claimsOf, recordStatements } from '../../support/plans/statements.ts'
import { keysOf } from '../../support/rows/claim-session.ts'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** A session of psql, for example, which is no batch: it has the first of two messages of a key. */
async function lockFirst(database: TestDatabase, sluice: Sluice, queue: string, lock: string) {
  const { same, other } = await keysOf(database)
  const [id] = await put(sluice, queue, ['first', 'second'], { orderingKey: same[0] })
  const session = await database.pool.connect()
  onTestFinished(() => session.release())
  await session.query('BEGIN')
  await session.query(`SELECT FROM sluice.message WHERE queue = $1 AND id = $2 ${lock}`, [queue, id])
  await put(sluice, queue, ['same slot'], { orderingKey: same[1] })
  await put(sluice, queue, ['other slot'], { orderingKey: other })
  await put(sluice, queue, ['no key'])
  return { session, id: id! }
}

const test = base.extend('locked', ({ database, sluice, queue }) => lockFirst(database, sluice, queue, 'FOR UPDATE'))

const PIPELINES = {
  transactional: (sluice: Sluice, queue: string) => sluice.pipeline(queue),
  'transactional, one by one': (sluice: Sluice, queue: string) =>
    sluice.pipeline(queue, { concurrency: 1, batchSize: 1 }),
  leased: (sluice: Sluice, queue: string) => sluice.pipeline(queue, { mode: 'leased' }),
} as const

const OTHERS = ['no key', 'other slot', 'same slot']

/** What a pipeline of another process has handled, in its order. */
function handledBy(
  pipelineOf: (typeof PIPELINES)[keyof typeof PIPELINES],
  database: TestDatabase,
  queue: string,
  options: Partial<SluiceOptions> = {},
) {
  const handled: unknown[] = []
  const pipeline = pipelineOf(startTestSluice(database, options), queue)
    .handle(({ payload }) => void handled.push(payload))
    .start()
  const until = (count: number, what: string) => waitFor(() => handled.length >= count, { what })
  return { handled, until, pipeline }
}

describe('a session that has locked a message with an ordering key', () => {
  for (const [mode, pipelineOf] of Object.entries(PIPELINES)) {
    test(`holds up that key alone, beside a ${mode} pipeline`, async ({ database, queue, locked: { session } }) => {
      const { handled, until, pipeline } = handledBy(pipelineOf, database, queue)
      await until(3, 'the other messages to be handled')
      expect(handled.toSorted()).toEqual(OTHERS)
      await session.query('ROLLBACK')
      await until(5, 'the messages of the key to be handled')
      expect(handled.slice(3)).toEqual(['first', 'second'])
      await pipeline.drain()
    })
  }

  for (const lock of ['FOR NO KEY UPDATE', 'FOR SHARE', 'FOR KEY SHARE'])
    base(`holds it up by ${lock} as well`, async ({ database, sluice, queue }) => {
      const { session } = await lockFirst(database, sluice, queue, lock)
      const { handled, until, pipeline } = handledBy(PIPELINES.transactional, database, queue)
      await until(3, 'the other messages to be handled')
      expect(handled.toSorted()).toEqual(OTHERS)
      await session.query('COMMIT')
      await until(5, 'the messages of the key to be handled')
      expect(handled.slice(3)).toEqual(['first', 'second'])
      await pipeline.drain()
    })

  test('lets the next one of the key go when it has removed it', async ({ database, queue, locked }) => {
    const { session, id } = locked
    const { handled, until, pipeline } = handledBy(PIPELINES.transactional, database, queue)
    await until(3, 'the other messages to be handled')
    await session.query('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, id])
    await session.query('COMMIT')
    await until(4, 'the second message of the key to be handled')
    await pipeline.drain()
    expect(handled.slice(3)).toEqual(['second'])
  })

  test('holds up that key alone, for claims', async ({ sluice, queue, locked: { session } }) => {
    const taken = async () => (await sluice.claim(queue, { limit: 10 }))?.messages.map(({ payload }) => payload)
    expect((await taken())?.toSorted()).toEqual(OTHERS)
    await session.query('ROLLBACK')
    expect(await taken()).toEqual(['first'])
  })

  test('holds up that key alone, in a queue with limits', async ({ database, queue, locked: { session } }) => {
    await setQueueColumns(database, queue, { concurrency: 100 })
    const { handled, until, pipeline } = handledBy(PIPELINES.transactional, database, queue)
    await until(3, 'the other messages to be handled')
    expect(handled.toSorted()).toEqual(OTHERS)
    await session.query('ROLLBACK')
    await until(5, 'the messages of the key to be handled')
    expect(handled.slice(3)).toEqual(['first', 'second'])
    await pipeline.drain()
  })

  test('lets a worker sleep, which looks again once a second', async ({ database, queue, locked: { session } }) => {
    const sent = recordStatements()
    const { until, pipeline } = handledBy(PIPELINES.transactional, database, queue, { pollInterval: NO_POLL })
    await until(3, 'the other messages to be handled')
    await raisedFlag(database, queue)
    const [claims, startedAt] = [claimsOf(sent, queue).length, performance.now()]
    // A look is six claims or so: by the floors and from the bottom, and again without the key.
    await waitFor(() => claimsOf(sent, queue).length >= claims + 20, { what: 'further claims' })
    expect(performance.now() - startedAt).toBeGreaterThan(1_000)
    await session.query('ROLLBACK')
    await until(5, 'the messages of the key to be handled')
    await pipeline.drain()
  })

  test('with hundreds of others of many keys lets those behind them go', async ({ database, sluice, queue }) => {
    const keys = await database.sql<{ key: string }>(
      `SELECT k.key FROM (SELECT 'key ' || n AS key FROM generate_series(1, 20000) n) k
       WHERE hashtextextended(k.key COLLATE "C", 0) & 255 = 7 LIMIT 41`,
    )
    const [last, ...others] = keys.map(({ key }) => key)
    for (const orderingKey of others) await put(sluice, queue, [1, 2, 3], { orderingKey })
    const session = await database.pool.connect()
    onTestFinished(() => session.release())
    await session.query('BEGIN')
    await session.query('SELECT FROM sluice.message WHERE queue = $1 FOR UPDATE', [queue])
    await put(sluice, queue, ['behind'], { orderingKey: last! })
    const { handled, until, pipeline } = handledBy(PIPELINES['transactional, one by one'], database, queue)
    await until(1, 'the message behind all others to be handled')
    expect(handled).toEqual(['behind'])
    await session.query('ROLLBACK')
    await until(121, 'the others to be handled')
    await pipeline.drain()
  })
})
