import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import type { TestDatabase } from '../support/servers/database.ts'
import { put, test } from '../support/sluice.ts'
import { deferred, waitFor } from '../support/wait.ts'

const left = (database: TestDatabase, queue: string) =>
  database.sql('SELECT payload FROM sluice.message WHERE queue = $1', [queue])

async function untilEmpty(database: TestDatabase, queue: string): Promise<void> {
  await waitFor(async () => (await left(database, queue)).length === 0, { what: 'the queue to be empty' })
}

/** Moves the rows of a queue, and commits that when somebody waits for it. */
async function moveUnder(database: TestDatabase, queue: string, begin: () => void): Promise<void> {
  const mover = new pg.Client({ connectionString: database.url })
  await mover.connect()
  onTestFinished(() => mover.end())
  await mover.query('BEGIN')
  await mover.query('UPDATE sluice.message SET priority = 1 WHERE queue = $1', [queue])
  begin()
  const waiting = () =>
    database.sql(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
  await waitFor(async () => (await waiting()).length > 0, { what: 'somebody to wait for the rows' })
  await mover.query('COMMIT')
}

describe('a leased message whose row somebody moves', () => {
  test('is settled by who waits for that, and not taken for lost', async ({ sluice, queue, database, log }) => {
    await put(sluice, queue, [1, 2])
    const go = deferred()
    const begun = deferred()
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', batchSize: 2 })
      .handle(async () => {
        begun.resolve()
        await go.promise
      })
      .start()
    await begun.promise
    await moveUnder(database, queue, go.resolve)
    await untilEmpty(database, queue)
    await pipeline.drain()
    expect(log.of('lease.lost')).toEqual([])
  })

  test('is locked by transaction(), which waits for that', async ({ sluice, queue, database, log }) => {
    await database.sql('CREATE TABLE moved (n integer)')
    await put(sluice, queue, [1])
    const go = deferred()
    const begun = deferred()
    const run = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(async (_, { transaction }) => {
        begun.resolve()
        await go.promise
        await transaction((tx) => tx.query('INSERT INTO moved VALUES (1)'))
      })
      .runOnce()
    await begun.promise
    await moveUnder(database, queue, go.resolve)
    expect((await run).counts).toMatchObject({ acked: 1, retried: 0 })
    expect(await database.sql('SELECT n FROM moved')).toEqual([{ n: 1 }])
    expect(log.of('lease.lost')).toEqual([])
  })
})
