import { describe, expect } from 'vitest'
import { append as appendNumbers, jumpSegment } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { append, test } from '../../support/streams.ts'

/** Five windows of claims. */
const SEGMENTS = 40

describe('a group of a stream with many segments', () => {
  test('locks those that a batch reads, and no other', async ({ database, sluice, stream }) => {
    await inSegments(database, stream, SEGMENTS, () => appendNumbers(database, stream, 1))
    const locks: number[] = []
    const pipeline = sluice.pipeline(stream, { group: 'all', batchSize: 1 }).handle(async (_, { tx }) => {
      const { rows } = await tx.query<{ locks: number }>(
        `SELECT count(*)::integer AS locks FROM pg_locks
         WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation::regclass::text ~ '^sluice\\.event_\\d+_\\d'`,
      )
      locks.push(rows[0]?.locks ?? 0)
    })
    await pipeline.runOnce()
    expect(locks).toHaveLength(SEGMENTS)
    expect(locks.toSorted((a, b) => a - b)[SEGMENTS / 2]).toBeLessThanOrEqual(2 * WINDOW)
    // A claim that finds nothing where it has looked goes on to where the next event of another partition is.
    expect(Math.max(...locks)).toBeLessThanOrEqual(PARTITIONS * WINDOW)
  })

  test('reads each event once, by position in each partition, wherever the partitions have theirs', async ({
    database,
    sluice,
    stream,
  }) => {
    // Of four partitions: one has events in all segments, one in every eleventh, one at both ends, and one at the end.
    const keys = await keysOf(database)
    const expected: number[] = []
    await inSegments(database, stream, SEGMENTS, async (n) => {
      const of = [keys[0], ...(n % 11 === 0 ? [keys[1]] : []), ...(n === 0 ? [keys[2]] : [])]
      const last = n === SEGMENTS - 1 ? [keys[2], keys[3]] : []
      expected.push(
        ...(await append(
          database,
          stream,
          [...of, ...last].map((key) => [n, key]),
        )),
      )
    })
    const handled: { readonly position: number; readonly key: string | null }[] = []
    const pipeline = sluice.pipeline(stream, { group: 'all', batchSize: 3 }).handle(({ position, orderingKey }) => {
      handled.push({ position: Number(position), key: orderingKey })
    })
    await pipeline.runOnce()
    expect(handled.map(({ position }) => position).toSorted((a, b) => a - b)).toEqual(expected)
    for (const key of keys) {
      const positions = handled.filter((one) => one.key === key).map(({ position }) => position)
      expect(positions).toEqual(positions.toSorted((a, b) => a - b))
    }
    // A partition that was quiet for all that time goes on at once, and so does one that is moved back.
    const [late] = await append(database, stream, [['late', keys[3]]])
    await pipeline.runOnce()
    expect(handled.at(-1)).toEqual({ position: late, key: keys[3] })
    await sluice.operate.groups.seek(stream, 'all', 'start')
    await pipeline.runOnce()
    expect(handled).toHaveLength(2 * (expected.length + 1))
  })

  test('comes to the head with one partition while another has a backlog far behind', async ({
    database,
    sluice,
    stream,
  }) => {
    const keys = await keysOf(database)
    await append(
      database,
      stream,
      Array.from({ length: 200 }, (_, n) => [n, keys[0]]),
    )
    await inSegments(database, stream, SEGMENTS, () => append(database, stream, [['quiet', keys[1]]]))
    await sluice.operate.groups.seek(stream, 'all', 'start')
    const handled: unknown[] = []
    const pipeline = sluice.pipeline(stream, { group: 'all', batchSize: 5 }).handle(({ orderingKey }) => {
      handled.push(orderingKey)
    })
    await pipeline.runOnce()
    expect(handled).toHaveLength(200 + SEGMENTS)
    expect(handled.slice(0, 100)).toContain(keys[1])
  })
})

/** Nine segments, with an index each. */
const WINDOW = 9 * 2
const PARTITIONS = 4

/** Runs something in each of so many segments. */
async function inSegments(
  database: TestDatabase,
  stream: string,
  segments: number,
  work: (segment: number) => Promise<unknown>,
): Promise<void> {
  for (let n = 0; n < segments; n++) {
    await work(n)
    if (n < segments - 1) await jumpSegment(database, stream)
  }
}

/** Ordering keys of four partitions, one each. */
async function keysOf(database: TestDatabase): Promise<readonly [string, string, string, string]> {
  const rows = await database.sql<{ key: string }>(
    `SELECT DISTINCT ON (k.partition) k.key FROM (
       SELECT 'key ' || n AS key, sluice_private.event_partition('key ' || n, $1::smallint) AS partition FROM generate_series(1, 100) n
     ) k ORDER BY k.partition`,
    [PARTITIONS],
  )
  const [one, two, three, four] = rows.map(({ key }) => key)
  return [one!, two!, three!, four!]
}

describe('a look at', () => {
  const LOOKS = [
    ['the groups', 'SELECT * FROM sluice.groups'],
    ['the partitions of groups', 'SELECT * FROM sluice.group_partitions'],
    ['the streams', 'SELECT * FROM sluice.streams'],
  ] as const

  test.for(LOOKS)(
    '%s locks four segments for each window where partitions are',
    async ([, sql], { database, stream }) => {
      // One partition is at the beginning, and three at the end, with the segment that is attached ahead.
      await inSegments(database, stream, 12, () => append(database, stream, [['a', 'key']]))
      expect(await locksOf(database, stream, sql)).toBeLessThanOrEqual((4 + 2) * 2)
      await database.sql("SELECT sluice.seek_group($1, 'all', sluice.stream_positions($1, 'end'))", [stream])
      expect(await locksOf(database, stream, sql)).toBeLessThanOrEqual(2 * 2)
    },
  )

  test('unread events counts those that wait behind an open append', async ({ database, sluice, stream }) => {
    const open = await database.pool.connect()
    try {
      await open.query('BEGIN')
      await open.query("SELECT sluice.append($1, '1', 'key')", [stream])
      await append(database, stream, [
        [2, 'key'],
        [3, 'key'],
      ])
      const [group] = await sluice.operate.groups.list({ stream })
      expect(group).toMatchObject({ unread: 2, partitionsHeldBack: 1 })
    } finally {
      open.release(true)
    }
  })
})

describe('a batch that fails, a read and a trim', () => {
  test('lock the segments that they are about', async ({ database, stream }) => {
    await inSegments(database, stream, 12, () => append(database, stream, [['a', 'key']]))
    const [{ partition, first, next } = { partition: 0, first: '', next: '' }] = await database.sql<
      Record<'partition' | 'first' | 'next', never>
    >(
      'SELECT partition, min(position) AS first, (array_agg(position ORDER BY position))[2] AS next FROM sluice.events($1) GROUP BY partition',
      [stream],
    )
    const [{ id, group } = { id: 0, group: 0 }] = await database.sql<Record<'id' | 'group', number>>(
      'SELECT s.id, g.id AS group FROM sluice.stream s JOIN sluice.stream_group g USING (stream) WHERE s.stream = $1',
      [stream],
    )
    for (const [most, sql] of [
      [
        1,
        `SELECT sluice_private.queue_events(${group}, '{${partition}}', '{${first}}', '{1}', '{NULL}', '{no}', '{NULL}')`,
      ],
      [
        1,
        `SELECT sluice_private.dead_letter_events(${group}, '{${partition}}', '{${first}}', '{1}', '{no}', '{no}', '{NULL}')`,
      ],
      [1, `SELECT count(*) FROM sluice.events('${stream}', after => ${BigInt(next) - 1n}, most => 1)`],
      [2, `SELECT count(*) FROM sluice.events('${stream}', most => 2)`],
      [1, `SELECT sluice_private.read_events(${id}, '{0,1,2,3}', '{0,0,0,0}', '{9,9,9,9}', 10)`],
      [1, `SELECT sluice_private.next_position(${id}, '{0,1,2,3}', '{0,0,0,0}', '{${10n ** 15n}, 9, 9, 9}')`],
      [2, `SELECT sluice.trim_stream('${stream}', ${next}, force => true)`],
    ] as const)
      expect(await locksOf(database, stream, sql), sql).toBeLessThanOrEqual(most * 2)
  })
})

/** How many locks of the stream's segments and their indexes a statement leaves. */
async function locksOf(database: TestDatabase, stream: string, sql: string): Promise<number> {
  const client = await database.pool.connect()
  try {
    await client.query('BEGIN')
    await client.query(sql)
    const { rows } = await client.query<{ locks: number }>(
      `SELECT count(DISTINCT l.relation)::integer AS locks FROM pg_locks l, sluice.stream s
       WHERE s.stream = $1 AND l.pid = pg_backend_pid() AND l.locktype = 'relation'
         AND l.relation::regclass::text ~ format('^sluice\\.event_%s_\\d', s.id)`,
      [stream],
    )
    return rows[0]?.locks ?? 0
  } finally {
    client.release(true)
  }
}
