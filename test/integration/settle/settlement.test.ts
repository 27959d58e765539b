import { describe, expect } from 'vitest'
import { statement } from '../../../src/table/statement.ts'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { payloadsOf, unlockedPayloads, untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** Makes the removal of a queue's messages fail until the function that it returns is called. */
async function refuseRemoval(database: TestDatabase, queue: string): Promise<() => Promise<void>> {
  const name = `refuse_${queue.replace(/\W/g, '_')}`
  await database.sql(`
    CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'not today'; END$$;
    CREATE TRIGGER ${name} BEFORE DELETE ON sluice.message FOR EACH ROW WHEN (OLD.queue = '${queue}')
    EXECUTE FUNCTION ${name}()`)
  return async () => {
    await database.sql(`DROP TRIGGER ${name} ON sluice.message`)
  }
}

describe('a settlement that fails', () => {
  test('gives the whole batch back with nothing of its effects', async ({ database, sluice, queue, log }) => {
    await database.sql('CREATE TABLE effect (n integer)')
    const allow = await refuseRemoval(database, queue)
    const attempts: number[] = []
    sluice
      .pipeline(queue)
      .handle(async ({ payload, attempt }, { tx }) => {
        attempts.push(attempt)
        await tx.query('INSERT INTO effect VALUES ($1)', [payload])
      })
      .subscribe()
    await put(sluice, queue, [1, 2])
    const released = await log.first('batch.released')
    expect(released).toMatchObject({ queue, messages: 2, error: { message: 'not today' } })
    expect(await database.sql('SELECT n FROM effect')).toEqual([])
    await allow()
    await untilEmpty(database, queue)
    expect(await database.sql('SELECT n FROM effect ORDER BY n')).toEqual([{ n: 1 }, { n: 2 }])
    // Both fail once more, by themselves, if they are tried before the removal is allowed.
    expect(attempts.slice(0, 2)).toEqual([1, 1])
  })

  // The next claim is on its way by then: what it locks has to be free as well. Repeated, because it depends on how the
  // answers arrive.
  test('leaves no row locked', async ({ database, sluice, queue, log }) => {
    const allow = await refuseRemoval(database, queue)
    await put(sluice, queue, [1, 2, 3])
    for (let round = 1; round <= 30; round++) {
      const subscription = sluice
        .pipeline(queue, { batchSize: 1, concurrency: 2, maxAttempts: 1_000, retry: { kind: 'fixed', delay: 1 } })
        .handle(() => undefined)
        .subscribe()
      const before = log.of('batch.released').length
      await waitFor(() => log.of('batch.released').length > before, { what: 'a lost batch' })
      await subscription.drain()
      expect(await unlockedPayloads(database, queue), `round ${round}`).toEqual([1, 2, 3])
    }
    await allow()
    expect(await payloadsOf(database, queue)).toEqual([1, 2, 3])
  })
})

test('P7: COMMIT has succeeded only if the server says COMMIT', async ({ database }) => {
  const connection = await BatchConnection.acquire(database.pool)
  try {
    connection.begin()
    await expect(connection.client.query('SELECT 1 / 0')).rejects.toThrow('division by zero')
    await expect(connection.commit()).rejects.toMatchObject({
      code: 'COMMIT_FAILED',
      message: 'COMMIT: expected the command tag COMMIT, received ROLLBACK',
    })
    connection.begin()
    await connection.commit()
  } finally {
    connection.release()
  }
})

test('P7: a COMMIT that the server refuses is known to have had no effect', async ({ database }) => {
  await database.sql('CREATE TABLE once (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO once VALUES (1)')
  const refused = {
    code: 'COMMIT_FAILED',
    message: 'The server refused COMMIT: nothing of the transaction has taken effect',
    cause: { code: '23505' },
  }
  const connection = await BatchConnection.acquire(database.pool)
  try {
    connection.begin()
    await connection.client.query('INSERT INTO once VALUES (1)')
    await expect(connection.commit()).rejects.toMatchObject(refused)
  } finally {
    connection.release()
  }
})

test('a settlement that fails because of a query before it says so, also in front of the next transaction', async ({
  database,
}) => {
  const connection = await BatchConnection.acquire(database.pool)
  try {
    connection.begin()
    connection.sendSoon('SELECT 1 / 0')
    await waitFor(() => connection.aborted && connection.waitsSinceMs === undefined, { what: 'the text to fail' })
    const sent = connection.together(() => [
      connection.execute(statement('failed_before', 'SELECT'), []),
      connection.commit({ ms: 10_000, serverVersion: 160_000 }),
    ])
    expect(await Promise.allSettled(sent)).toMatchObject([
      { status: 'rejected', reason: { code: '22012' } },
      { status: 'rejected', reason: { code: 'COMMIT_FAILED', cause: { code: '22012' } } },
    ])
  } finally {
    await connection.abandon()
    connection.release()
  }
})

test('P7: a COMMIT that is not answered may have had an effect', async ({ database }) => {
  const connection = await BatchConnection.acquire(database.pool)
  try {
    connection.begin()
    await connection.client.query('SELECT 1')
    const committed = connection.commit()
    connection.break('cut')
    await expect(committed).rejects.toMatchObject({
      code: 'COMMIT_FAILED',
      message: 'COMMIT was not answered: whether it took effect is unknown',
    })
  } finally {
    connection.release()
  }
})
