import type pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { type Reading, streamPages } from '../../../src/operate/streams/stream-pages.ts'
import { allOf } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { append, test } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

const KEYS = Array.from({ length: 100 }, (_, n) => `key ${n}`)
const ONE_EACH = KEYS.map((key) => [key, key] as const)

describe('a stream without events', () => {
  test('takes other partitions, more and fewer, with the groups that it has', async ({ database, sluice, stream }) => {
    await rolledBack(database, stream)
    for (const partitions of [64, 2, 8] as const) {
      expect(await sluice.streams.set(stream, { partitions })).toBe(false)
      expect(await sluice.operate.streams.list({ stream })).toMatchObject([{ partitions }])
      expect((await sluice.operate.groups.partitions(stream, 'all')).map(({ partition }) => partition)).toEqual(
        numbers(partitions),
      )
    }
    await append(database, stream, ONE_EACH)
    const handled: unknown[] = []
    await sluice
      .pipeline(stream, { group: 'all' })
      .handle(({ payload }) => void handled.push(payload))
      .runOnce()
    expect(handled.toSorted()).toEqual(KEYS.toSorted())
    expect(await partitionsAreRight(database, stream)).toBe(true)
    await expect(sluice.streams.set(stream, { partitions: 16 })).rejects.toMatchObject({
      code: 'STREAM_PARTITIONS_FIXED',
      message: expect.stringMatching(
        /^partitions: expected 8, which stream ".*" keeps while it has events or open appends, received 16\./,
      ),
    })
    expect(await sluice.operate.streams.list({ stream })).toMatchObject([{ partitions: 8 }])
  })

  test('is read in all of its partitions by a worker that runs, whose group sleeps', async ({ database, stream }) => {
    const sluice = startTestSluice(database)
    const handled: unknown[] = []
    sluice
      .pipeline(stream, { group: 'all' })
      .handle(({ payload }) => void handled.push(payload))
      .start()
    await waitFor(async () => (await asleep(database)) > 0, { what: 'a worker that sleeps' })
    await sluice.streams.set(stream, { partitions: 64 })
    await append(database, stream, ONE_EACH)
    await waitFor(() => handled.length === KEYS.length, { what: 'all events' })
    expect(handled.toSorted()).toEqual(KEYS.toSorted())
  })

  test('is read in all of its partitions by a read that follows, also one that has waited for the change', async ({
    database,
    sluice,
    stream,
  }) => {
    const { changer } = await changing(database, stream)
    const ofOneKey = allOf(sluice.streams.read(stream, { follow: true, limit: 1, orderingKey: 'key 7' }))
    const all = allOf(sluice.streams.read(stream, { follow: true, limit: KEYS.length }))
    await untilWaiting(database, 'stream_stable_ends', 2)
    const appended = append(database, stream, ONE_EACH)
    await untilWaiting(database, 'append_many', 1)
    await changer.query('COMMIT')
    await appended
    expect((await all).map(({ payload }) => payload)).toEqual(KEYS)
    expect(await ofOneKey).toMatchObject([{ payload: 'key 7' }])
  })

  test('is read in all of its partitions by a read that had begun before', async ({ database, stream }) => {
    const client = await database.pool.connect()
    onTestFinished(() => client.release())
    let looks = 0
    const third = Promise.withResolvers<void>()
    const reading: Reading = (work) => work(executeOn(client)).finally(() => ++looks === 3 && third.resolve())
    const offset = { at: 'start', position: null, timeUs: null } as const
    const plan = { stream, orderingKey: null, type: null, limit: KEYS.length, follow: true, from: offset, to: offset }
    const pages = streamPages(plan, reading, new AbortController().signal)
    const first = pages.next()
    await third.promise
    await database.sql('SELECT sluice.create_stream($1, 64)', [stream])
    await append(database, stream, ONE_EACH)
    const events = [...((await first).value ?? [])]
    for await (const page of pages) events.push(...page)
    expect(events.map(({ payload }) => payload)).toEqual(KEYS)
  })
})

describe('partitions', () => {
  test('stay while an append is open, and change when it has been rolled back', async ({
    database,
    sluice,
    stream,
  }) => {
    const client = await database.pool.connect()
    try {
      await client.query('BEGIN')
      await client.query("SELECT sluice.append($1, '1')", [stream])
      await expect(sluice.streams.set(stream, { partitions: 8 })).rejects.toMatchObject({
        code: 'STREAM_PARTITIONS_FIXED',
      })
      await client.query('ROLLBACK')
    } finally {
      client.release()
    }
    await sluice.streams.set(stream, { partitions: 8 })
  })

  test.for(['sluice.append', 'sluice.append_many'])(
    'are the new ones for a call of %s that came while they changed',
    async (name, { database, stream }) => {
      const { changer } = await changing(database, stream)
      const text =
        name === 'sluice.append'
          ? `SELECT sluice.append($1, '1', key) FROM unnest($2::text[]) AS key`
          : `SELECT sluice.append_many($1, jsonb_agg(1), jsonb_agg(jsonb_build_object('orderingKey', key))) FROM unnest($2::text[]) AS key`
      const appended = database.sql(text, [stream, KEYS])
      await untilWaiting(database, 'sluice.append', 1)
      await changer.query('COMMIT')
      await appended
      expect(await partitionsAreRight(database, stream)).toBe(true)
    },
  )

  test('are refused to an append whose snapshot shows the old ones', async ({ database, sluice, stream }) => {
    const client = await database.pool.connect()
    try {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await client.query('SELECT 1 FROM sluice.stream')
      await sluice.streams.set(stream, { partitions: 8 })
      await expect(client.query("SELECT sluice.append($1, '1', 'k')", [stream])).rejects.toMatchObject({
        code: '40001',
      })
      await client.query('ROLLBACK')
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await expect(client.query('SELECT sluice.create_stream($1, 4)', [stream])).rejects.toMatchObject({
        code: '25001',
      })
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  })

  test('are one of seven numbers', async ({ database, stream }) => {
    for (const partitions of [0, 3, 128, 1_000_000])
      await expect(database.sql('SELECT sluice.create_stream($1, $2)', [stream, partitions])).rejects.toThrow(
        /partitions|smallint/,
      )
  })
})

function numbers(count: number): readonly number[] {
  return Array.from({ length: count }, (_, n) => n)
}

/** It leaves no event, and draws a position. */
async function rolledBack(database: TestDatabase, stream: string): Promise<void> {
  const client = await database.pool.connect()
  await client.query('BEGIN')
  await client.query("SELECT sluice.append($1, '1')", [stream])
  await client.query('ROLLBACK')
  client.release()
}

async function partitionsAreRight(database: TestDatabase, stream: string): Promise<boolean | undefined> {
  const text = `
    SELECT bool_and(e.partition = sluice_private.event_partition(e.ordering_key, s.partitions)) AS right
    FROM sluice.event e JOIN sluice.stream s ON s.id = e.stream_id WHERE s.stream = $1`
  return (await database.sql<{ right: boolean }>(text, [stream]))[0]?.right
}

/** A transaction that has given the stream 64 partitions, and is open. */
async function changing(database: TestDatabase, stream: string): Promise<{ readonly changer: pg.PoolClient }> {
  const changer = await database.pool.connect()
  onTestFinished(() => changer.release())
  await changer.query('BEGIN')
  await changer.query('SELECT sluice.create_stream($1, 64)', [stream])
  return { changer }
}

async function untilWaiting(database: TestDatabase, text: string, count: number): Promise<void> {
  const sql =
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'"
  await waitFor(async () => (await database.sql(sql, [text])).length === count, {
    what: `${count} that wait in ${text}`,
  })
}

async function asleep(database: TestDatabase): Promise<number> {
  return (
    await database.sql(
      "SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 746501 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
  ).length
}
