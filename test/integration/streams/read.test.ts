import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import type { StreamEvents } from '../../../src/operate/streams/stream-events.ts'
import { type Reading, streamPages } from '../../../src/operate/streams/stream-pages.ts'
import { allOf, append, jumpSegment, makeStream } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/sluice.ts'

describe('read', () => {
  test('gives every event in the order of positions, over partitions, pages and segments', async ({
    database,
    sluice,
    queue,
  }) => {
    await makeStream(database, queue)
    await append(database, queue, 1_500)
    await jumpSegment(database, queue)
    await append(database, queue, 1_500)
    const events = await allOf(sluice.streams.read(queue))
    expect(events.map(({ payload }) => payload)).toEqual(Array.from({ length: 3_000 }, (_, n) => (n % 1_500) + 1))
    const positions = events.map(({ position }) => position)
    expect(positions).toEqual(positions.toSorted((a, b) => a - b))
    expect(positions[1_500]).toBe(1_000_000_000)
  })

  test('ends after as many events as it may give, also if it follows', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await append(database, queue, 200)
    for (const [limit, follow] of [
      [1, false],
      [64, true],
      [150, true],
      [1_000, false],
    ] as const) {
      const events = await allOf(sluice.streams.read(queue, { limit, follow }))
      expect(events.map(({ position }) => position)).toEqual(
        Array.from({ length: Math.min(limit, 200) }, (_, n) => n + 1),
      )
    }
    expect(() => sluice.streams.read(queue, { limit: 0 })).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
  })

  test('gives an event as it was appended', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await database.sql(`SELECT sluice.append($1, '{"a": 1.5}', 'k', 'order.paid', 3, '{"trace": "x"}')`, [queue])
    expect(await allOf(sluice.streams.read(queue))).toEqual([
      {
        id: `${queue}/1`,
        stream: queue,
        position: 1,
        type: 'order.paid',
        schemaVersion: 3,
        payload: { a: 1.5 },
        headers: { trace: 'x' },
        orderingKey: 'k',
        appendedAt: expect.any(Date),
      },
    ])
  })

  test('takes those of one key, or of one type, however far apart they are', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await database.sql(
      `SELECT sluice.append_many($1, (SELECT jsonb_agg(n) FROM generate_series(1, 4000) n),
         (SELECT jsonb_agg(jsonb_build_object('orderingKey', 'k' || n % 40, 'type', 't' || n % 500)) FROM generate_series(1, 4000) n))`,
      [queue],
    )
    const ofKey = await allOf(sluice.streams.read(queue, { orderingKey: 'k7' }))
    expect(ofKey.map(({ payload }) => payload)).toEqual(Array.from({ length: 100 }, (_, n) => n * 40 + 7))
    const ofType = await allOf(sluice.streams.read(queue, { type: 't3' }))
    expect(ofType.map(({ payload }) => payload)).toEqual(Array.from({ length: 8 }, (_, n) => n * 500 + 3))
    expect(await allOf(sluice.streams.read(queue, { type: 't3', orderingKey: 'k7' }))).toEqual([])
  })

  test('begins and ends at positions and times', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await append(database, queue, 1_000)
    await age(database, queue, '3 h')
    await append(database, queue, 500)
    await age(database, queue, '2 h', 1_000)
    await append(database, queue, 10)
    const ago = (hours: number) => ({ time: new Date(Date.now() - hours * 3_600_000) })
    expect(await count(sluice.streams.read(queue, { from: ago(4) }))).toBe(1_510)
    expect(await count(sluice.streams.read(queue, { from: ago(2.5) }))).toBe(510)
    expect(await count(sluice.streams.read(queue, { from: ago(1) }))).toBe(10)
    expect(await count(sluice.streams.read(queue, { from: ago(-1) }))).toBe(0)
    expect(await count(sluice.streams.read(queue, { from: ago(2.5), to: ago(1) }))).toBe(500)
    const [first, ...others] = await allOf(
      sluice.streams.read(queue, { from: { position: 990 }, to: { position: 1_005 } }),
    )
    expect([first?.position, others.length, others.at(-1)?.position]).toEqual([990, 15, 1_005])
    expect(await count(sluice.streams.read(queue, { from: 'end' }))).toBe(0)
    expect(await count(sluice.streams.read(queue, { from: { position: 99_999 } }))).toBe(0)
  })

  test('stops before an append that is open, and does not pass it over when it follows', async ({
    database,
    sluice,
    queue,
  }) => {
    await makeStream(database, queue)
    await append(database, queue, 10)
    const open = await connect(database)
    await open.query('BEGIN')
    await open.query(`SELECT sluice.append($1, '"late"')`, [queue])
    await append(database, queue, 10)
    expect(await count(sluice.streams.read(queue))).toBe(10)
    const following = sluice.streams.read(queue, { follow: true })[Symbol.asyncIterator]()
    for (let n = 0; n < 10; n++) await following.next()
    const next = following.next()
    await open.query('COMMIT')
    expect(await next).toMatchObject({ value: { payload: 'late', position: 11 } })
    expect(await following.next()).toMatchObject({ value: { position: 12 } })
    await following.return()
  })

  test('follows until its signal aborts, or nobody listens', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    const leaving = new AbortController()
    const seen: unknown[] = []
    const done = (async () => {
      for await (const { payload } of sluice.streams.read(queue, { follow: true, signal: leaving.signal })) {
        seen.push(payload)
        if (payload === 2) leaving.abort()
      }
    })()
    await append(database, queue, 2)
    await done
    expect(seen).toEqual([1, 2])
    const quiet = sluice.streams.read(queue, { from: 'end', follow: true })[Symbol.asyncIterator]()
    const waiting = quiet.next()
    await quiet.return()
    expect(await waiting).toEqual({ done: true, value: undefined })
  })

  test('is an Observable too, cold, and ends when it is unsubscribed', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await append(database, queue, 200)
    const events = sluice.streams.read(queue)
    for (let twice = 0; twice < 2; twice++) {
      const seen: unknown[] = []
      await new Promise<void>((complete, error) => {
        events.subscribe({ next: ({ payload }) => seen.push(payload), complete, error })
      })
      expect(seen).toHaveLength(200)
    }
    let seen = 0
    await new Promise<void>((resolve) => {
      const subscription = sluice.streams.read(queue, { follow: true }).subscribe(() => {
        seen += 1
        if (seen < 100) return
        resolve()
        subscription.unsubscribe()
      })
    })
    expect(seen).toBe(100)
  })

  test('does not give what has been trimmed', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await append(database, queue, 100)
    expect(await sluice.operate.streams.trim(queue, { position: 91 })).toMatchObject({ trimmedTo: 90 })
    expect((await allOf(sluice.streams.read(queue))).map(({ position }) => position)).toEqual([
      91, 92, 93, 94, 95, 96, 97, 98, 99, 100,
    ])
    const [rows] = await database.sql<{ count: string }>('SELECT count(*) FROM sluice.events($1)', [queue])
    expect(rows?.count).toBe('10')
  })

  test('refuses what it does not know', async ({ sluice, queue }) => {
    await expect(allOf(sluice.streams.read(queue))).rejects.toMatchObject({ code: 'STREAM_UNKNOWN' })
    expect(() => sluice.streams.read('a:b')).toThrow(/^stream: expected a name of 1 to 49 letters/)
    for (const from of [1, 'begin', {}, { position: -1 }, { time: 'now' }, { position: 1, time: new Date() }]) {
      // @ts-expect-error: not an offset
      expect(() => sluice.streams.read(queue, { from })).toThrow(/^streams\.read\.from/)
    }
    expect(() => sluice.streams.read(queue, { follow: true, to: 'end' })).toThrow('read.to: expected none with follow')
  })

  test('holds a page in memory, not the stream', async ({ database, queue }) => {
    await makeStream(database, queue)
    await database.sql(
      `SELECT count(*) FROM sluice.append_many($1, (SELECT jsonb_agg(repeat('x', 100000)) FROM generate_series(1, 400) n), '[]')`,
      [queue],
    )
    const client = await connect(database)
    const offset = { position: null, timeUs: null }
    const plan = {
      stream: queue,
      from: { ...offset, at: 'start' },
      to: { ...offset, at: 'end' },
      orderingKey: null,
      type: null,
      limit: Number.POSITIVE_INFINITY,
      follow: false,
    } as const
    const sizes: number[] = []
    const reading: Reading = (work) => work(executeOn(client))
    for await (const page of streamPages(plan, reading, new AbortController().signal)) sizes.push(page.length)
    expect(sizes.reduce((sum, size) => sum + size)).toBe(400)
    // 4 MiB are 41 of these.
    expect(sizes[0]).toBe(64)
    expect(Math.max(...sizes.slice(1))).toBeLessThanOrEqual(41)
  })
})

async function count(events: StreamEvents<unknown>): Promise<number> {
  return (await allOf(events)).length
}

/** Events up to now become so much older, behind a position. */
async function age(database: TestDatabase, stream: string, by: string, behind = 0): Promise<void> {
  await database.sql(
    `UPDATE sluice.event e SET appended_at = appended_at - $2::interval FROM sluice.stream s
     WHERE s.stream = $1 AND e.stream_id = s.id AND e.position > $3`,
    [stream, by, behind],
  )
}

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
