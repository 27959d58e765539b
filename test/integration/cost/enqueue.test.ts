import pg from 'pg'
import { describe, expect } from 'vitest'
import { test as base, times } from '../../support/plans/counted.ts'
import { sleepOn } from '../../support/processes/sleeper.ts'
import type { TestDatabase } from '../../support/servers/database.ts'

/** What a transaction that has enqueued holds until it ends, beside the shared side of its queues' waiting flags. */
const LOCKS = [
  'relation sluice.message RowExclusiveLock',
  'relation sluice.message_id_seq RowExclusiveLock',
  'relation sluice.queue AccessShareLock',
  'relation sluice.queue_pkey AccessShareLock',
  'transactionid ExclusiveLock',
  'virtualxid ExclusiveLock',
]
const MANY = times(1_000, [{ payload: { n: 1 } }])

/** A client of the application's, in a transaction, which is seen as well. */
const test = base.extend('client', async ({ counted, database }, { onCleanup }) => {
  const client = new pg.Client({ ...counted.wire.connection(database.url), application_name: APPLICATION })
  await client.connect()
  onCleanup(() => client.end())
  await client.query('BEGIN')
  await counted.clear()
  return client
})
const APPLICATION = 'application'

describe('P5: the cost of an enqueue:', () => {
  test('one round trip, one statement, and one shared lock of the queue', async ({
    counted,
    client,
    database,
    queue,
  }) => {
    await counted.sluice.enqueue(client, queue, {})
    expect(counted.wire.flushes(APPLICATION)).toEqual([['SELECT']])
    expect(await locksOf(database, [queue])).toEqual([`flag of ${queue} ShareLock`, ...LOCKS])
  })

  test('nobody asks what the columns of its answer are', async ({ counted, client, queue }) => {
    await counted.sluice.enqueue(client, queue, {})
    // Parse, Bind, Execute and Sync; and for each what came of it, with one row.
    expect(counted.wire.messages(APPLICATION)).toEqual({ sent: 'PBES', read: '12DCZ' })
  })

  test('no more for a thousand, and a lock for each further queue', async ({ counted, client, database, queue }) => {
    const other = `${queue}.other`
    await counted.sluice.enqueueMany(client, queue, MANY)
    await counted.sluice.enqueueMany(client, queue, MANY)
    expect(counted.wire.flushes(APPLICATION)).toEqual([['INSERT'], ['INSERT']])
    expect(await locksOf(database, [queue, other])).toEqual([`flag of ${queue} ShareLock`, ...LOCKS])
    await counted.sluice.enqueue(client, other, {})
    expect(await locksOf(database, [queue, other])).toEqual([
      `flag of ${queue} ShareLock`,
      `flag of ${other} ShareLock`,
      ...LOCKS,
    ])
  })

  test('the same by the SQL function', async ({ client, database, queue }) => {
    await client.query('SELECT sluice.enqueue($1, $2)', [queue, '{}'])
    expect(await locksOf(database, [queue])).toEqual([`flag of ${queue} ShareLock`, ...LOCKS])
  })

  test('no lock of a queue for what is due later', async ({ counted, client, database, queue }) => {
    await counted.sluice.enqueue(client, queue, {}, { delay: '1h' })
    expect(await locksOf(database, [queue])).toEqual(LOCKS)
  })

  test('if somebody waits, one notification per transaction, and still no other lock before the commit', async ({
    counted,
    client,
    database,
    queue,
  }) => {
    await using sleeper = await sleepOn(database.url, queue)
    await counted.sluice.enqueueMany(client, queue, MANY)
    await counted.sluice.enqueue(client, queue, {})
    expect(await locksOf(database, [queue])).toEqual(LOCKS)
    await client.query('COMMIT')
    expect(await sleeper.notifications()).toEqual([queue])
  })

  test('two round trips in a transaction of its own', async ({ counted, queue }) => {
    const { sluice } = counted
    await sluice.enqueue(sluice.ownTransaction, queue, {})
    expect(await counted.flushes('sluice')).toEqual([
      ['session', 'BEGIN; SET; SET; SET; SET; SET; SET', 'SELECT'],
      ['COMMIT'],
    ])
    await counted.clear()
    await sluice.enqueue(sluice.ownTransaction, queue, {})
    // The limit for locks, and what the database has otherwise than our statements need.
    expect(await counted.flushes('sluice')).toEqual([
      [expect.stringMatching(/^BEGIN(; SET){1,2}$/), 'insert_plain'],
      ['COMMIT'],
    ])
  })
})

/** Every lock of the application's transaction, with the flags of these queues by name, as another session sees it. */
async function locksOf({ sql }: TestDatabase, queues: readonly string[]): Promise<readonly string[]> {
  const rows = await sql<{ lock: string }>(
    `SELECT concat_ws(' ', coalesce(flag.name, l.locktype), l.relation::regclass,
                      CASE WHEN flag.name IS NULL THEN concat_ws(' ', l.classid, l.objid) END, l.mode) AS lock
     FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
     LEFT JOIN LATERAL (
       SELECT 'flag of ' || queue AS name FROM unnest($2::text[]) queue
       WHERE l.locktype = 'advisory' AND l.classid = 746501 AND l.objid::bigint = hashtext(queue)::bigint & 4294967295
     ) flag ON true
     WHERE a.datname = current_database() AND a.application_name = $1`,
    [APPLICATION, queues],
  )
  return rows.map(({ lock }) => lock.replaceAll('  ', ' ')).sort()
}
