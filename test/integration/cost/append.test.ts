import pg from 'pg'
import { describe, expect } from 'vitest'
import { test as base, times } from '../../support/plans/counted.ts'
import type { TestDatabase } from '../../support/servers/database.ts'

/** A client of the application's, in a transaction, which is seen as well; and a stream that it has appended to before. */
const test = base
  .extend('stream', async ({ counted, database, queue }) => {
    const { sluice } = counted
    const stream = queue.replaceAll('.', '-')
    await sluice.streams.set(stream)
    await sluice.append(sluice.ownTransaction, stream, {})
    await database.sql('SELECT')
    return stream
  })
  .extend('client', async ({ counted, database }, { onCleanup }) => {
    const client = new pg.Client({ ...counted.wire.connection(database.url), application_name: APPLICATION })
    await client.connect()
    onCleanup(() => client.end())
    return client
  })
const APPLICATION = 'application'

/** What a transaction that has appended holds until it ends, beside one shared lock for each partition. */
const LOCKS = ['event', 'event_N', 'event_N_0', 'event_position_N', 'stream', 'stream_id_key', 'stream_pkey']

describe('P5: the cost of an append:', () => {
  test('one round trip, one statement, one lock for its partition, and none for the next of the partition', async ({
    counted,
    client,
    database,
    stream,
  }) => {
    await client.query('BEGIN')
    await counted.clear()
    await counted.sluice.append(client, stream, {}, { orderingKey: 'k' })
    expect(counted.wire.flushes(APPLICATION)).toEqual([['SELECT']])
    expect(await locksOf(database)).toEqual({ relations: LOCKS, partitions: 1, sleepers: 1 })
    await counted.sluice.append(client, stream, {}, { orderingKey: 'k' })
    expect(await locksOf(database)).toEqual({ relations: LOCKS, partitions: 1, sleepers: 1 })
  })

  test('no more for a thousand, and a lock for each further partition', async ({
    counted,
    client,
    database,
    stream,
  }) => {
    await client.query('BEGIN')
    await counted.clear()
    await counted.sluice.appendMany(client, stream, times(1_000, [{ payload: {}, orderingKey: 'k' }]))
    expect(counted.wire.flushes(APPLICATION)).toEqual([['SELECT']])
    expect(await locksOf(database)).toEqual({ relations: LOCKS, partitions: 1, sleepers: 1 })
    const all = Array.from({ length: 200 }, (_, n) => ({ payload: n, orderingKey: `key ${n}` }))
    await counted.sluice.appendMany(client, stream, all)
    expect(await locksOf(database)).toEqual({ relations: LOCKS, partitions: 16, sleepers: 1 })
  })

  test('the positions of a thousand come in one row', async ({ counted, client, stream }) => {
    await client.query('BEGIN')
    await counted.clear()
    const positions = await counted.sluice.appendMany(client, stream, times(1_000, [{ payload: {} }]))
    expect(counted.wire.messages(APPLICATION)).toEqual({ sent: 'PBES', read: '12DCZ' })
    expect(positions).toEqual(times(1_000, [0]).map((_, n) => positions[0]! + n))
  })

  test('touches the pages of its row and its key, however many streams and segments there are', async ({
    client,
    database,
    stream,
  }) => {
    for (let n = 0; n < 5; n++) await database.sql('SELECT sluice.create_stream($1)', [`${stream}-${n}`])
    // The least: a session plans and reads its catalogs once, and again when a test beside it creates or drops a database.
    let buffers = Number.POSITIVE_INFINITY
    for (let n = 0; n < 5; n++) {
      const { rows } = await client.query<{ 'QUERY PLAN': readonly [{ Plan: Record<string, number> }] }>(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT sluice.append('${stream}', '{}', 'k')`,
      )
      const { Plan: plan } = rows[0]!['QUERY PLAN'][0]
      const touched = plan['Shared Hit Blocks']! + plan['Shared Read Blocks']! + plan['Shared Dirtied Blocks']!
      buffers = Math.min(buffers, touched)
    }
    expect(buffers).toBeLessThanOrEqual(MOST_BUFFERS)
  })
})

const MOST_BUFFERS = 14

/** The locks of the application's transaction: tables, sequences and indexes by name, and how many of partitions and of sleepers. */
async function locksOf({ sql }: TestDatabase) {
  const rows = await sql<{ relation: string | null; class: number | null }>(
    `SELECT DISTINCT ON (l.relation, l.classid, l.objid)
            regexp_replace(l.relation::regclass::text, '^sluice\\.(event_position|event)_\\d+', '\\1_N') AS relation,
            (l.classid::bigint >> 24)::integer AS class
     FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
     WHERE a.datname = current_database() AND a.application_name = $1 AND l.locktype IN ('relation', 'advisory')`,
    [APPLICATION],
  )
  return {
    relations: rows.flatMap(({ relation }) => relation?.replace('sluice.', '') ?? []).toSorted(),
    partitions: rows.filter(({ class: of }) => of === 0x4c).length,
    sleepers: rows.filter(({ class: of }) => of === 0).length,
  }
}
