import pg from 'pg'
import { describe, expect } from 'vitest'
import { test as base, type Counted, times } from '../../support/plans/counted.ts'
import { sleepOn } from '../../support/processes/sleeper.ts'
import { append } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { raise } from '../../support/steps.ts'

/** A client of the application's, and a stream of one partition with a group that begins at its start. */
const test = base
  .extend('stream', async ({ database, queue }) => {
    const stream = queue.replaceAll('.', '-')
    await database.sql('SELECT sluice.create_stream($1, 1::smallint)', [stream])
    await database.sql(`SELECT sluice.create_group($1, 'all', '{0}')`, [stream])
    return stream
  })
  .extend('client', async ({ counted, database }, { onCleanup }) => {
    const client = new pg.Client({ ...counted.wire.connection(database.url), application_name: APPLICATION })
    await client.connect()
    onCleanup(() => client.end())
    return client
  })
const APPLICATION = 'application'

/** Progress, COMMIT with the next BEGIN, and the next claim: locks, events, standing. */
const NEXT = ['event_progress', 'COMMIT', 'event_lock', 'event_read', 'group_standing']
/** The last batch is full, so the claim behind it relies on the stable ends that it knows, finds nothing, and looks once more. */
const LAST = [
  ['event_stable_ends', 'event_lock', 'event_read', 'group_standing'],
  ['event_rest'],
  ['claim'],
  ['ROLLBACK'],
]

describe('P5: the cost of a group:', () => {
  test.for([1, 100, 500])(
    'one round trip per batch of %i, and none for the next claim',
    async (size, { counted, database, stream }) => {
      const pipeline = counted.sluice.pipeline(stream, { group: 'all', batchSize: size }).handle(() => undefined)
      await append(database, stream, 4 * size)
      await counted.clear()
      await pipeline.runOnce()
      // Behind the first batch the group's queue is asked.
      expect((await groupFlushes(counted)).slice(-7)).toEqual([...times(3, [NEXT]), ...LAST])
      const once = [['group_read'], ['group_queued']]
      expect(await counted.flushes('sluice control')).toEqual([...once, ...times(4, [['batch_record']])])
    },
  )

  test('failures cost a statement per batch, and no round trip', async ({ counted, database, stream }) => {
    const retry = { kind: 'fixed', delay: '1h' } as const
    const pipeline = counted.sluice.pipeline(stream, { group: 'all', batchSize: 100, retry }).handle(() => raise())
    await append(database, stream, 400)
    await pipeline.runOnce()
    expect((await groupFlushes(counted)).slice(-7)).toEqual([...times(3, [['event_queue', ...NEXT]]), ...LAST])
  })

  test('an append is the same statement for one group and for twenty', async ({
    counted,
    client,
    database,
    stream,
  }) => {
    await client.query('BEGIN')
    await counted.sluice.append(client, stream, {}, { orderingKey: 'k' })
    const alone = await costOfAppend(counted, client, database, stream)
    for (let n = 1; n < 20; n++) await database.sql(`SELECT sluice.create_group($1, $2)`, [stream, `more-${n}`])
    expect(await costOfAppend(counted, client, database, stream)).toEqual(alone)
    expect(alone.flushes).toEqual([['SELECT']])
    await client.query('ROLLBACK')
  })

  test('a hundred groups asleep on one stream cost one notification per commit, which wakes them all', async ({
    counted,
    client,
    database,
    stream,
  }) => {
    const handled = new Map<string, number>()
    const all = Promise.withResolvers<void>()
    await database.sql(`SELECT sluice.create_group($1, 'group-' || n) FROM generate_series(0, 99) AS n`, [stream])
    for (let n = 0; n < 100; n++) {
      counted.sluice
        .pipeline(stream, { group: `group-${n}` })
        .handle(({ queue }) => {
          handled.set(queue, (handled.get(queue) ?? 0) + 1)
          if ([...handled.values()].reduce((sum, count) => sum + count, 0) === 300) all.resolve()
        })
        .start()
    }
    await counted.pass(10_000)
    await using observer = await sleepOn(database.url, `/${stream}`, { flag: false })
    await client.query('BEGIN')
    for (let n = 0; n < 3; n++) await counted.sluice.append(client, stream, { n })
    await client.query('COMMIT')
    await all.promise
    // The process also says that it has lowered its flag.
    expect((await observer.notifications()).filter((payload) => !payload.startsWith('!'))).toEqual([`/${stream}`])
    expect([...handled.values()]).toEqual(times(100, [3]))
  })
})

/** What the group's connection has sent, without settings, and without the number of the stream. */
async function groupFlushes({ flushes }: Counted) {
  const sent = await flushes('sluice')
  return sent.map((flush) => flush.map((one) => one.replace(/(_\d+)+$|; SET.*$/, '')))
}

async function costOfAppend({ sluice, wire }: Counted, client: pg.Client, { sql }: TestDatabase, stream: string) {
  wire.clear()
  await sluice.append(client, stream, {}, { orderingKey: 'k' })
  const flushes = wire.flushes(APPLICATION)
  const locks = await sql<{ lock: string }>(
    `SELECT concat_ws(' ', l.locktype, l.relation::regclass, l.classid, l.mode) AS lock
     FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
     WHERE a.datname = current_database() AND a.application_name = $1 ORDER BY 1`,
    [APPLICATION],
  )
  return { flushes, locks: locks.map(({ lock }) => lock) }
}
