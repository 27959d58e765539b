import { describe, expect } from 'vitest'
import type { TestDatabase } from '../../support/servers/database.ts'
import { raise } from '../../support/steps.ts'
import { append, test } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

const MISSING = { code: 'ROWS_MISSING' }

/** Rows that it is asked to insert are not there afterwards, until it is disposed. */
async function swallowing(database: TestDatabase, table: string): Promise<AsyncDisposable> {
  await database.sql(
    `CREATE OR REPLACE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`,
  )
  await database.sql(`CREATE TRIGGER swallow BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION swallow()`)
  return { [Symbol.asyncDispose]: async () => void (await database.sql(`DROP TRIGGER swallow ON ${table}`)) }
}

async function effects(database: TestDatabase): Promise<readonly unknown[]> {
  return (await database.sql('SELECT n FROM effect ORDER BY n')).map(({ n }) => n)
}

describe('a batch of a group that could not be settled', () => {
  test.for([
    ['sluice.message', { maxAttempts: 5 }],
    ['sluice.dead_letter', { maxAttempts: 1 }],
  ] as const)(
    'because %s did not take what failed, is rolled back, and nothing is lost',
    async ([table, options], { database, sluice, stream }) => {
      await append(database, stream, [[1], [2], [3]])
      const pipeline = sluice
        .pipeline(stream, { group: 'all', batchSize: 3, retry: { kind: 'fixed', delay: '1h' }, ...options })
        .handle(({ payload }) => (payload === 2 ? raise('no') : undefined))
      {
        await using _ = await swallowing(database, table)
        await expect(pipeline.runOnce()).rejects.toMatchObject(MISSING)
      }
      await pipeline.runOnce()
      expect(await database.sql(`SELECT payload FROM ${table} WHERE queue = $1`, [`${stream}:all`])).toEqual([
        { payload: 2 },
      ])
      expect((await sluice.operate.groups.list({ stream }))[0]).toMatchObject({ unread: 0 })
    },
  )

  test('because the progress was not written, is rolled back with what its handlers wrote', async ({
    database,
    sluice,
    stream,
  }) => {
    await database.sql('CREATE TABLE effect (n integer)')
    await append(database, stream, [[1], [2], [3]])
    const pipeline = sluice
      .pipeline(stream, { group: 'all', batchSize: 3, retry: { kind: 'fixed', delay: 0 } })
      .handle(async ({ payload }, { tx }) => {
        await tx.query('INSERT INTO effect VALUES ($1)', [payload])
      })
    {
      await using _ = await swallowing(database, 'sluice.group_progress')
      await expect(pipeline.runOnce()).rejects.toMatchObject(MISSING)
      expect(await effects(database)).toEqual([])
    }
    // The lost try of the first counts as failed: it is due again a moment later, by the server's clock.
    const all = async () => {
      await pipeline.runOnce()
      return (await effects(database)).length >= 3
    }
    await waitFor(all, { what: 'the three to be handled' })
    expect(await effects(database)).toEqual([1, 2, 3])
  })

  test('because its own handler has moved the group, is rolled back with the move', async ({
    database,
    sluice,
    stream,
  }) => {
    await database.sql('CREATE TABLE moved (n integer)')
    await append(database, stream, [
      [1, 'k'],
      [2, 'k'],
    ])
    const retry = { kind: 'fixed', delay: '1h' } as const
    const pipeline = sluice
      .pipeline(stream, { group: 'all', batchSize: 2, retry })
      .handle(async ({ payload }, { tx }) => {
        await tx.query('INSERT INTO moved VALUES ($1)', [payload])
        if (payload === 2) await tx.query(`SELECT sluice.seek_group($1, 'all', '{2}')`, [stream])
      })
    await pipeline.runOnce().catch(() => undefined)
    // The first may have been handled alone since.
    expect(await database.sql('SELECT n FROM moved WHERE n = 2')).toEqual([])
    const rows = `SELECT count(*)::integer AS n FROM sluice.group_progress p JOIN sluice.stream_group g ON g.id = p.group_id WHERE g.stream = $1`
    expect(await database.sql(rows, [stream])).toEqual([{ n: 4 }])
  })
})
