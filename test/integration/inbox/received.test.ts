import type pg from 'pg'
import { describe, expect } from 'vitest'
import { SluiceError } from '../../../src/errors.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as withLogins } from '../../support/servers/logins.ts'
import { startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

type Client = pg.PoolClient

/** Does the work in a transaction of its own, and commits it. */
async function inTransaction<T>(
  { pool }: Pick<TestDatabase, 'pool'>,
  work: (client: Client) => Promise<T>,
  begin = 'BEGIN',
): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query(begin)
    const result = await work(client)
    await client.query('COMMIT')
    return result
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

describe('received', () => {
  test('says of a message whether it is new, by its queue, its source and its id', async ({
    database,
    sluice,
    queue,
  }) => {
    const ask = (...[of, source, id]: readonly [string, string, string]) =>
      inTransaction(database, (tx) => sluice.received(tx, of, source, id))
    expect(await ask(queue, 'stripe', 'evt_1')).toBe(true)
    expect(await ask(queue, 'stripe', 'evt_1')).toBe(false)
    expect(await ask(queue, 'stripe', 'evt_2')).toBe(true)
    expect(await ask(queue, 'github', 'evt_1')).toBe(true)
    expect(await ask(`${queue}.other`, 'stripe', 'evt_1')).toBe(true)
  })

  test('of a message whose transaction was rolled back says that it is new', async ({ database, sluice, queue }) => {
    const failing = inTransaction(database, async (tx) => {
      expect(await sluice.received(tx, queue, 'stripe', 'evt_1')).toBe(true)
      throw new Error('its effect failed')
    })
    await expect(failing).rejects.toThrow('its effect failed')
    expect(await inTransaction(database, (tx) => sluice.received(tx, queue, 'stripe', 'evt_1'))).toBe(true)
  })

  test('waits for the end of the transaction that has received the message first', async ({
    database,
    sluice,
    queue,
  }) => {
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
      AND query LIKE '%sluice.received(%'`
    const answers = await inTransaction(database, async (first) => {
      expect(await sluice.received(first, queue, 'stripe', 'evt_1')).toBe(true)
      const second = inTransaction(database, (tx) => sluice.received(tx, queue, 'stripe', 'evt_1'))
      await waitFor(async () => (await database.sql(waiting)).length > 0, { what: 'the copy to wait' })
      return { second }
    })
    expect(await answers.second).toBe(false)
  })

  test('keeps a receipt for as long as it is asked to', async ({ database, sluice, queue }) => {
    await inTransaction(database, (tx) => sluice.received(tx, queue, 'a', 'week'))
    await inTransaction(database, (tx) => sluice.received(tx, queue, 'a', 'day', { retention: '1d' }))
    expect(
      await database.sql(
        `SELECT message_id, date_trunc('minute', until - received_at + interval '30 seconds')::text AS kept
         FROM sluice.receipt WHERE queue = $1 ORDER BY until`,
        [queue],
      ),
    ).toEqual([
      { message_id: 'day', kept: '1 day' },
      { message_id: 'week', kept: '7 days' },
    ])
  })

  test('may be asked by SQL, and in the transaction of a handler', async ({ database, sluice, queue }) => {
    const bySql = `SELECT sluice.received($1, 'stripe', 'evt_1', interval '2 hours') AS is_new`
    expect(await database.sql(bySql, [queue])).toEqual([{ is_new: true }])
    expect(await database.sql(bySql, [queue])).toEqual([{ is_new: false }])
    const answers: boolean[] = []
    await sluice.enqueue(sluice.ownTransaction, queue, 1)
    await sluice
      .pipeline(queue)
      .handle(async (_, { tx }) => {
        for (const id of ['evt_1', 'evt_2']) answers.push(await sluice.received(tx, queue, 'stripe', id))
      })
      .runOnce()
    expect(answers).toEqual([false, true])
  })

  test('fails a transaction with one snapshot that cannot see the receipt', async ({ database, sluice, queue }) => {
    const late = inTransaction(
      database,
      async (tx) => {
        await tx.query('SELECT 1')
        await inTransaction(database, (first) => sluice.received(first, queue, 'stripe', 'evt_1'))
        return sluice.received(tx, queue, 'stripe', 'evt_1')
      },
      'BEGIN ISOLATION LEVEL REPEATABLE READ',
    )
    await expect(late).rejects.toMatchObject({ code: '40001' })
  })

  test('refuses what it cannot keep before it asks the server', async ({ database, sluice, queue }) => {
    await inTransaction(database, async (tx) => {
      const refusals = [
        [() => sluice.received(tx, queue, '', 'a'), 'received.source: expected 1 to 255 bytes of text'],
        [() => sluice.received(tx, queue, 's', ''), 'received.id: expected 1 to 1000 bytes of text'],
        [() => sluice.received(tx, queue, 's', 'x'.repeat(1_001)), 'received.id: expected 1 to 1000 bytes of text'],
        [() => sluice.received(tx, queue, 's', 'a\0'), 'received.id: expected text without NUL'],
        [() => sluice.received(tx, queue, 's', 'a', { retention: 0 }), 'received.retention: expected a duration'],
        [() => sluice.received(tx, '!', 's', 'a'), 'queue: expected a name'],
        [() => sluice.received(sluice.ownTransaction as never, queue, 's', 'a'), 'tx: expected the open transaction'],
      ] as const
      for (const [ask, words] of refusals) {
        const error = await ask().catch((thrown: unknown) => thrown)
        expect(error).toBeInstanceOf(SluiceError)
        expect(String(error)).toContain(words)
      }
      expect(await sluice.received(tx, queue, 's', 'a')).toBe(true)
    })
  })

  test('by SQL refuses what it cannot keep', async ({ database }) => {
    const refused = (call: string) => database.sql(`SELECT sluice.received(${call})`)
    await expect(refused(`'q', 's', NULL`)).rejects.toThrow('expected a value, received NULL')
    await expect(refused(`'q', 's', 'a', '0'`)).rejects.toThrow('retention: expected from 1 second to 100 years')
    await expect(refused(`'q', repeat('s', 256), 'a'`)).rejects.toThrow('source: 1 to 255 bytes')
    await expect(refused(`'q', 's', repeat('a', 1001)`)).rejects.toThrow('message_id: 1 to 1,000 bytes')
    await expect(refused(`'a b', 's', 'a'`)).rejects.toThrow('queue: 1 to 100 letters')
  })

  test('fails if the table does not take the receipt, and never takes that for a copy', async ({
    database,
    sluice,
    queue,
  }) => {
    await database.sql(`
      CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER swallow BEFORE INSERT ON sluice.receipt FOR EACH ROW EXECUTE FUNCTION public.swallow()`)
    try {
      const lost = inTransaction(database, (tx) => sluice.received(tx, queue, 'stripe', 'evt_1'))
      await expect(lost).rejects.toThrow('sluice.receipt: expected to take 1 row')
      const batch = database.sql(`SELECT sluice_private.receive($1, '["s", "s"]', '["a", "b"]', 1000)`, [queue])
      await expect(batch).rejects.toThrow('sluice.receipt: expected to take 2 row(s)')
    } finally {
      await database.sql('DROP FUNCTION public.swallow CASCADE')
    }
  })
})

describe('a batch with a copy in it', () => {
  test('reads no receipt but by the index, also while the table is small', async ({ database, queue }) => {
    await inTransaction(database, (tx) =>
      tx.query(`SELECT sluice_private.receive($1, '["s"]', '["z"]', 100000)`, [queue]),
    )
    await database.sql('VACUUM ANALYZE sluice.receipt')
    const [answer, counted] = await inTransaction(database, async (tx) => {
      const receive = `SELECT sluice_private.receive($1, '["s"]', '["a", "b", "a"]', 100000) AS is_new`
      const { rows } = await tx.query(receive, [queue])
      const scans = `SELECT seq_scan::integer AS scans FROM pg_stat_xact_user_tables WHERE relid = 'sluice.receipt'::regclass`
      return [rows, (await tx.query(scans)).rows]
    })
    expect(answer).toEqual([{ is_new: [true, true, false] }])
    expect(counted).toEqual([{ scans: 0 }])
  })
})

describe('old receipts', () => {
  test('go 1,000 at a time, and none that is locked or young', async ({ database, queue }) => {
    await database.sql(
      `INSERT INTO sluice.receipt (queue, source, message_id, until)
       SELECT $1, 's', n::text, clock_timestamp() + CASE WHEN n > 1500 THEN interval '1 hour' ELSE interval '-1 hour' END
       FROM generate_series(1, 1600) AS n`,
      [queue],
    )
    const holder = await database.pool.connect()
    await holder.query('BEGIN')
    await holder.query(`SELECT FROM sluice.receipt WHERE queue = $1 AND message_id = '7' FOR UPDATE`, [queue])
    const prune = async () => (await database.sql<{ n: number }>('SELECT sluice.prune_receipts() AS n'))[0]?.n
    expect([await prune(), await prune(), await prune()]).toEqual([1_000, 499, 0])
    await holder.query('ROLLBACK')
    holder.release()
    expect(await prune()).toBe(1)
    expect(await database.sql('SELECT count(*)::int AS n FROM sluice.receipt WHERE queue = $1', [queue])).toEqual([
      { n: 100 },
    ])
  })
})

withLogins('a producer may write receipts and read none, and a worker may delete old ones', async ({ login }) => {
  const [producer, worker] = [await login('sluice_producer'), await login('sluice_worker')]
  const sluice = startTestSluice(producer)
  expect(await inTransaction(producer, (tx) => sluice.received(tx, 'stripe-in', 'stripe', 'evt_1'))).toBe(true)
  await expect(producer.sql('SELECT FROM sluice.receipt')).rejects.toThrow('permission denied')
  await expect(producer.sql('SELECT sluice.prune_receipts()')).rejects.toThrow('permission denied')
  await expect(worker.sql(`SELECT sluice.received('q', 's', 'a')`)).rejects.toThrow('permission denied')
  expect(await worker.sql('SELECT sluice.prune_receipts() AS n')).toEqual([{ n: 0 }])
})
