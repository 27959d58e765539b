import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { type Reading, streamPages } from '../../../src/operate/streams/stream-pages.ts'
import { append } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** Of one partition. */
const test = base.extend('stream', async ({ database, queue }) => {
  await database.sql('SELECT sluice.create_stream($1, 1)', [queue])
  return queue
})

const START = new Date('2030-01-01T00:00:00Z')
const atSecond = (seconds: number) => ({ time: new Date(START.getTime() + seconds * 1_000) })

describe('a time', () => {
  test('is where the first event was appended then or later, although the clock was set back since', async ({
    database,
    sluice,
    stream,
  }) => {
    await append(database, stream, 3_000)
    // One event a second; behind the 2,000th the clock is nine minutes back.
    await database.sql(
      `UPDATE sluice.event e SET appended_at = $2::timestamptz + (e.position - CASE WHEN e.position > 2000 THEN 540 ELSE 0 END) * interval '1 second'
       FROM sluice.stream s WHERE s.stream = $1 AND e.stream_id = s.id`,
      [stream, START],
    )
    for (const second of [1, 1_000, 1_459, 1_460, 1_461, 1_700, 1_999, 2_000]) {
      const starts = await firstOf(sluice.streams.read(stream, { from: atSecond(second), limit: 1 }))
      expect(starts, `${second} s`).toBe(second)
    }
    expect(await firstOf(sluice.streams.read(stream, { from: atSecond(2_001), limit: 1 }))).toBe(2_541)
  })
})

describe('a position behind the end', () => {
  test('is waited for by a read that follows', async ({ database, stream }) => {
    await append(database, stream, 3)
    const client = await connect(database)
    const begun = Promise.withResolvers<void>()
    const reading: Reading = (work) => work(executeOn(client)).finally(begun.resolve)
    const offset = { position: null, timeUs: null }
    const plan = { stream, orderingKey: null, type: null, limit: 1, follow: true } as const
    const pages = streamPages(
      { ...plan, from: { ...offset, at: 'position', position: 5 }, to: { ...offset, at: 'end' } },
      reading,
      new AbortController().signal,
    )
    const page = pages.next()
    await begun.promise
    await append(database, stream, 1)
    await append(database, stream, 2)
    expect((await page).value).toMatchObject([{ position: 5 }])
  })

  test('is the end for a group, which sees what an open append has put before it', async ({
    database,
    sluice,
    stream,
  }) => {
    const open = await connect(database)
    await open.query('BEGIN')
    await open.query("SELECT sluice.append($1, '1')", [stream])
    await sluice.groups.set(stream, 'late', { from: { position: 1_000 } })
    await open.query('COMMIT')
    const handled: unknown[] = []
    await sluice
      .pipeline(stream, { group: 'late' })
      .handle(({ position }) => void handled.push(position))
      .runOnce()
    expect(handled).toEqual([1])
  })
})

test('a read that follows goes on where it was when its connection was cut', async ({ database, sluice, stream }) => {
  await append(database, stream, 2)
  const events = sluice.streams.read(stream, { follow: true })[Symbol.asyncIterator]()
  for (const position of [1, 2]) expect(await events.next()).toMatchObject({ value: { position } })
  const third = events.next()
  const blocker = await connect(database)
  await blocker.query('BEGIN')
  await blocker.query('LOCK TABLE sluice.stream IN ACCESS EXCLUSIVE MODE')
  const cut = async () => {
    const sql = `SELECT pg_terminate_backend(l.pid) FROM pg_locks l
                 WHERE l.relation = 'sluice.stream'::regclass AND NOT l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`
    return (await blocker.query(sql)).rowCount === 1
  }
  await waitFor(cut, { what: 'the read to wait' })
  await blocker.query('COMMIT')
  await append(database, stream, 1)
  expect(await third).toMatchObject({ value: { position: 3 } })
  await events.return?.(undefined)
})

async function firstOf(events: AsyncIterable<{ readonly position: number }>): Promise<number | undefined> {
  for await (const { position } of events) return position
  return undefined
}

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
