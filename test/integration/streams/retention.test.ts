import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { deadLetter } from '../../../src/message.ts'
import { EventLog } from '../../support/event-log.ts'
import { allOf, append, jumpSegment, makeStream, segmentsOf } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice, test } from '../../support/sluice.ts'
import { raise, Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

describe('the segments of a stream', () => {
  test('are closed in time, each with one attached ahead, and only if they have events', async ({
    database,
    sluice,
    queue,
  }) => {
    const id = await made(database, queue)
    await jumpSegment(database, queue)
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 0, 1))
    await append(database, queue, 3)
    await jumpSegment(database, queue)
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 0, 1, 2))
    await jumpSegment(database, queue)
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 0, 1, 2))
    await append(database, queue, 2)
    const positions = (await allOf(sluice.streams.read(queue))).map(({ position }) => position)
    expect(positions).toEqual([1, 2, 3, 1_000_000_000, 1_000_000_001])
    const rows = await database.sql<{ first: string; last: string | null }>(
      'SELECT first, last FROM sluice.segment WHERE stream_id = $1 ORDER BY first',
      [id],
    )
    expect(rows.map(({ first, last }) => [first, last])).toEqual([
      ['0', '3'],
      ['1000000000', null],
      ['2000000000', null],
    ])
  })

  test('count their events also if the next one was opened by a pass that was rolled back', async ({
    database,
    sluice,
    queue,
  }) => {
    const id = await made(database, queue)
    await append(database, queue, 3)
    const busy = await connect(database)
    await busy.query('BEGIN')
    // The next segment cannot be attached beside it, as beside a VACUUM.
    await busy.query(`LOCK TABLE sluice.event_${id} IN SHARE UPDATE EXCLUSIVE MODE`)
    await jumpSegment(database, queue)
    await busy.query('COMMIT')
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 0, 1))
    await append(database, queue, 2)
    await jumpSegment(database, queue)
    const positions = (await allOf(sluice.streams.read(queue))).map(({ position }) => position)
    expect(positions).toEqual([1, 2, 3, 1_000_000_000, 1_000_000_001])
    expect(await sluice.operate.streams.list({ stream: queue })).toMatchObject([{ stream: queue, events: 5 }])
  })

  test('are closed when one has a quarter of what the stream may take', async ({ database, queue }) => {
    const id = await made(database, queue, 'retain_bytes = 1000000')
    await append(database, queue, 5_000)
    await database.sql('SELECT sluice.keep_segments()')
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 0, 1, 2))
  })

  test('are not closed while an append is open that began in an earlier one', async ({ database, queue }) => {
    const id = await made(database, queue)
    await append(database, queue, 1)
    const open = await connect(database)
    await open.query('BEGIN')
    await open.query(`SELECT sluice.append($1, '1')`, [queue])
    await jumpSegment(database, queue)
    await append(database, queue, 1)
    await jumpSegment(database, queue)
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 0, 1, 2))
    await open.query('COMMIT')
    // One pass notes what the closed segment has, and the next one opens another.
    await jumpSegment(database, queue)
    await jumpSegment(database, queue)
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 0, 1, 2, 3))
  })
})

describe('retention', () => {
  test('drops closed segments that are too old, and keeps the others', async ({ database, sluice, queue }) => {
    const id = await made(database, queue, `retain_ms = 3600000`)
    await threeSegments(database, queue)
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 0 })
    await database.sql(
      `UPDATE sluice.segment SET closed_at = closed_at - interval '2 h' WHERE stream_id = $1 AND first = 0`,
      [id],
    )
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 1, finished: true })
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 1, 2, 3))
    expect(await database.sql(`SELECT to_regclass('sluice.event_${id}_0') AS gone`)).toEqual([{ gone: null }])
    const [first] = await allOf(sluice.streams.read(queue))
    expect(first?.position).toBe(1_000_000_000)
    expect((await sluice.operate.streams.list({ stream: queue }))[0]).toMatchObject({
      trimmedTo: 999_999_999,
      events: 20,
      segments: 3,
    })
  })

  test('drops the oldest segments while the stream takes too much', async ({ database, sluice, queue }) => {
    const id = await made(database, queue)
    await threeSegments(database, queue)
    const [size] = await database.sql<{ bytes: string }>(
      'SELECT sluice_private.segment_bytes($1, 0) * 5 / 2 AS bytes',
      [id],
    )
    await database.sql('UPDATE sluice.stream SET retain_bytes = $2 WHERE id = $1', [id, size?.bytes])
    await sluice.operate.maintain()
    expect(await segmentsOf(database, queue)).not.toContain(tables(id, 0)[0])
    expect((await sluice.operate.streams.list({ stream: queue }))[0]?.trimmedTo).toBeGreaterThan(0)
  })

  test('keeps what a group has not read, unless the group is paused or does without', async ({
    database,
    sluice,
    queue,
  }) => {
    const id = await made(database, queue, 'retain_ms = 1')
    await sluice.groups.set(queue, 'slow', { from: 'start' })
    await threeSegments(database, queue)
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 0 })
    await sluice.groups.set(queue, 'slow', { keepUnread: true })
    await sluice.operate.groups.pause(queue, 'slow')
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 0 })
    await database.sql('UPDATE sluice.stream_group SET keep_unread = NULL')
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 2 })
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 2, 3))
  })

  test('drops what all groups are past', async ({ database, sluice, queue }) => {
    await made(database, queue, 'retain_ms = 1')
    await sluice.groups.set(queue, 'one', { from: 'start' })
    await sluice.groups.set(queue, 'two', { from: 'start' })
    await threeSegments(database, queue)
    await sluice.operate.groups.seek(queue, 'one', 'end')
    await sluice.operate.groups.seek(queue, 'two', { position: 1_000_000_000 })
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 1 })
    expect((await sluice.operate.groups.list({ stream: queue })).map(({ lost }) => lost)).toEqual([null, null])
  })

  test('tells a group what it has lost, until it is moved', async ({ database, sluice, queue }) => {
    const id = await made(database, queue, 'retain_ms = 1, keep_unread = false')
    await threeSegments(database, queue)
    await sluice.groups.set(queue, 'slow', { from: { position: 5 } })
    await sluice.groups.set(queue, 'fast', { from: 'end' })
    await sluice.operate.maintain()
    const [fast, slow] = await sluice.operate.groups.list({ stream: queue })
    expect(fast?.lost).toBeNull()
    expect(slow).toMatchObject({ lost: { from: 5, to: 1_000_000_009 }, unread: 10 })
    const handled: number[] = []
    const pipeline = sluice
      .pipeline(queue, { group: 'slow' })
      .handle(({ position }) => void handled.push(Number(position)))
    await expect(pipeline.runOnce()).rejects.toMatchObject({
      code: 'GROUP_LOST_EVENTS',
      message: expect.stringContaining('from position 5 to 1000000009'),
    })
    expect(handled).toEqual([])
    await sluice.operate.groups.seek(queue, 'slow', 'start')
    expect((await sluice.operate.groups.list({ stream: queue }))[1]).toMatchObject({ lost: null, unread: 10 })
    await pipeline.runOnce()
    expect(handled.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 10 }, (_, n) => 2_000_000_000 + n))
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 2, 3))
  })

  test('waits for an open batch without keeping appends and reads waiting', async ({ database, sluice, queue }) => {
    const id = await made(database, queue, 'retain_ms = 1')
    await threeSegments(database, queue)
    const batch = await connect(database)
    await batch.query('BEGIN')
    await batch.query(`SELECT count(*) FROM sluice.event_${id}`)
    const pass = sluice.operate.maintain()
    await waitFor(async () => (await detaching(database)) === 1, { what: 'the detach' })
    const other = await connect(database)
    await other.query(`SET lock_timeout = '1s'`)
    for (let n = 0; n < 50; n++) {
      await other.query(`SELECT sluice.append($1, '1')`, [queue])
      await other.query(`SELECT count(*) FROM sluice.event_${id} WHERE position >= 2000000000`)
    }
    await batch.query('COMMIT')
    expect(await pass).toMatchObject({ segmentsDropped: 2 })
    expect(await allOf(sluice.streams.read(queue))).toHaveLength(60)
  })

  test('does not count as lost what a batch had in hand that goes on', async ({ database, sluice, queue }) => {
    const id = await made(database, queue, 'retain_ms = 1, keep_unread = false')
    await sluice.groups.set(queue, 'late', { from: 'start' })
    await threeSegments(database, queue)
    const batch = await connect(database)
    await batch.query('BEGIN')
    await batch.query(`SELECT count(*) FROM sluice.event_${id}`)
    const pass = sluice.operate.maintain()
    await waitFor(async () => (await detaching(database)) === 1, { what: 'the detach' })
    // Its claims stand still meanwhile, because it might have lost them.
    expect((await sluice.operate.groups.list({ stream: queue }))[0]?.lost).toEqual({ from: 1, to: 1_000_000_009 })
    await batch.query(
      `INSERT INTO sluice.group_progress (group_id, partition, position)
       SELECT g.id, partition, 1000000009 FROM sluice.stream_group g, generate_series(0, 15) partition WHERE g.stream = $1`,
      [queue],
    )
    await batch.query('COMMIT')
    expect(await pass).toMatchObject({ segmentsDropped: 2 })
    expect((await sluice.operate.groups.list({ stream: queue }))[0]).toMatchObject({ lost: null, unread: 10 })
  })

  test('leaves a batch the events that it has in hand, also if they fail', async ({ database, sluice, queue }) => {
    await made(database, queue, 'retain_ms = 1, keep_unread = false')
    await sluice.groups.set(queue, 'late', { from: 'start' })
    await threeSegments(database, queue)
    const steps = new Steps()
    const run = sluice
      .pipeline(queue, { group: 'late', batchSize: 2, retry: NEVER_SOON })
      .handle((event, context) => steps.handle(event, context))
      .runOnce()
    const [failing, dying] = [await steps.next(), steps.next()]
    const pass = sluice.operate.maintain()
    await waitFor(async () => (await detaching(database)) === 1, { what: 'the detach' })
    failing.endBy(() => raise('no'))
    const last = await dying
    last.end(deadLetter('no'))
    await expect(run).rejects.toMatchObject({ code: 'GROUP_LOST_EVENTS' })
    const kept =
      'SELECT payload FROM sluice.message WHERE queue = $1 UNION ALL SELECT payload FROM sluice.dead_letter WHERE queue = $1'
    expect(await database.sql(kept, [`${queue}:late`])).toEqual([failing, last].map(({ payload }) => ({ payload })))
    expect(await pass).toMatchObject({ segmentsDropped: 2 })
  })

  test('that a stop of its worker breaks off has not failed', async ({ database, sluice, queue }) => {
    const id = await made(database, queue, 'retain_ms = 1')
    await threeSegments(database, queue)
    const batch = await connect(database)
    await batch.query('BEGIN')
    await batch.query(`SELECT count(*) FROM sluice.event_${id}`)
    const worker = startTestSluice(database, { maintenanceInterval: '1s' })
    const log = new EventLog(worker.events)
    await worker.start()
    await waitFor(async () => (await detaching(database)) === 1, { what: 'the detach' })
    await worker.stop()
    expect(log.of('maintenance.done').at(-1)).toMatchObject({ segmentsDropped: 0, finished: false })
    expect(log.of('maintenance.failed')).toEqual([])
    await batch.query('COMMIT')
    // The server may notice only now that the worker has gone.
    const finished = async () => (await sluice.operate.maintain()).finished
    await waitFor(finished, { what: 'the next pass' })
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 2, 3))
  })

  test('that a call makes ends with its Sluice', async ({ database, sluice, queue }) => {
    const id = await made(database, queue, 'retain_ms = 1')
    await threeSegments(database, queue)
    const batch = await connect(database)
    await batch.query('BEGIN')
    await batch.query(`SELECT count(*) FROM sluice.event_${id}`)
    const other = startTestSluice(database)
    const pass = other.operate.maintain()
    const refused = expect(pass).rejects.toMatchObject({ code: 'UNREACHABLE' })
    await waitFor(async () => (await detaching(database)) === 1, { what: 'the detach' })
    await other.stop({ timeout: 0 })
    await refused
    await batch.query('COMMIT')
    const finished = async () => (await sluice.operate.maintain()).finished
    await waitFor(finished, { what: 'the next pass' })
  })

  test('finishes a detach that was interrupted', async ({ database, sluice, queue }) => {
    const id = await made(database, queue, 'retain_ms = 1')
    await threeSegments(database, queue)
    await database.sql('SELECT sluice.keep_segments()')
    const batch = await connect(database)
    await batch.query('BEGIN')
    await batch.query(`SELECT count(*) FROM sluice.event_${id}`)
    const interrupted = await connect(database)
    await interrupted.query(`SET statement_timeout = '200ms'`)
    const detach = `ALTER TABLE sluice.event_${id} DETACH PARTITION sluice.event_${id}_0 CONCURRENTLY`
    await expect(interrupted.query(detach)).rejects.toMatchObject({ code: '57014' })
    await batch.query('COMMIT')
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 2, finished: true })
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 2, 3))
  })

  test('is left to the process that is at it', async ({ database, sluice, queue }) => {
    await made(database, queue, 'retain_ms = 1')
    await threeSegments(database, queue)
    const other = await connect(database)
    await other.query('SELECT pg_advisory_lock(746505, 0)')
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 0, finished: false })
    await other.query('SELECT pg_advisory_unlock(746505, 0)')
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 2, finished: true })
  })
})

describe('retention beside a group', () => {
  test('that is being made takes nothing, and what it took before is behind the group', async ({
    database,
    sluice,
    queue,
  }) => {
    await made(database, queue, 'retain_ms = 1')
    await threeSegments(database, queue)
    const maker = await connect(database)
    await maker.query('BEGIN')
    await maker.query(`SELECT sluice.create_group($1, 'g', '{0}')`, [queue])
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 0 })
    await maker.query('COMMIT')
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 0 })
    expect((await sluice.operate.groups.list({ stream: queue }))[0]).toMatchObject({ lost: null, unread: 30 })
    await sluice.operate.groups.delete(queue, 'g')
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 2 })
    await database.sql(`SELECT sluice.create_group($1, 'late', '{0}')`, [queue])
    expect(await positionsOf(database, queue)).toEqual([{ position: '1999999999' }])
  })

  test('that is being moved takes nothing, and the group begins behind what it took before', async ({
    database,
    sluice,
    queue,
  }) => {
    const id = await made(database, queue, 'retain_ms = 1')
    await sluice.groups.set(queue, 'g', { from: 'start' })
    await threeSegments(database, queue)
    await sluice.operate.groups.seek(queue, 'g', { position: 1_000_000_005 })
    const batch = await connect(database)
    await batch.query('BEGIN')
    await batch.query(
      'SELECT pg_advisory_xact_lock(746503, g.id << 6 | partition) FROM sluice.stream_group g, generate_series(0, 15) partition WHERE g.stream = $1',
      [queue],
    )
    const mover = await connect(database)
    const moved = mover.query(`SELECT sluice.seek_group($1, 'g', '{2}')`, [queue])
    await waitFor(async () => (await database.sql(GROUP_LOCK_WAITS)).length > 0, {
      what: 'the move to wait for the batch',
    })
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 0 })
    await batch.query('COMMIT')
    await moved
    expect((await sluice.operate.groups.list({ stream: queue }))[0]).toMatchObject({ lost: null, unread: 28 })
    expect(await sluice.operate.streams.trim(queue, { position: 6 }, { force: true })).toMatchObject({ trimmedTo: 5 })
    await mover.query(`SELECT sluice.seek_group($1, 'g', '{2}')`, [queue])
    expect(await positionsOf(database, queue)).toEqual([{ position: '5' }])
    expect((await sluice.operate.groups.list({ stream: queue }))[0]).toMatchObject({ lost: null, unread: 25 })
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 0, 1, 2, 3))
  })
})

describe('trim', () => {
  test('moves the low-water mark at once, and the segments below it go', async ({ database, sluice, queue }) => {
    const id = await made(database, queue)
    await threeSegments(database, queue)
    expect(await sluice.operate.streams.trim(queue, { position: 1_000_000_004 })).toMatchObject({
      trimmedTo: 1_000_000_003,
    })
    expect(await allOf(sluice.streams.read(queue))).toHaveLength(16)
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 1 })
    expect(await segmentsOf(database, queue)).toEqual(tables(id, 1, 2, 3))
    // Never back.
    expect(await sluice.operate.streams.trim(queue, { position: 3 })).toMatchObject({ trimmedTo: 1_000_000_003 })
  })

  test('stops before what a group has not read, or what is not stable', async ({ database, sluice, queue }) => {
    await made(database, queue)
    await append(database, queue, 10)
    await sluice.groups.set(queue, 'g', { from: { position: 6 } })
    expect(await sluice.operate.streams.trim(queue, 'end')).toMatchObject({ trimmedTo: 5 })
    await sluice.operate.groups.seek(queue, 'g', 'end')
    const open = await connect(database)
    await open.query('BEGIN')
    await open.query(`SELECT sluice.append($1, '1')`, [queue])
    await append(database, queue, 5)
    expect(await sluice.operate.streams.trim(queue, { position: 14 })).toMatchObject({ trimmedTo: 10 })
  })

  test('says in a dry run what would be gone, who holds it back and who would lose it, and changes nothing', async ({
    database,
    sluice,
    queue,
  }) => {
    const { streams } = sluice.operate
    await made(database, queue)
    await append(database, queue, 10)
    await sluice.groups.set(queue, 'behind', { from: { position: 4 } })
    await sluice.groups.set(queue, 'far', { from: 'start' })
    await sluice.groups.set(queue, 'read', { from: 'end' })
    const before = { position: 8 }
    const dryRun = true
    expect(await streams.trim(queue, before, { dryRun })).toEqual({
      trimmedTo: 0,
      events: 0,
      heldBy: ['behind', 'far'],
      lostBy: [],
    })
    await database.sql(`SELECT sluice.group_set($1, 'far', keep_unread => false)`, [queue])
    expect(await streams.trim(queue, before, { dryRun })).toEqual({
      trimmedTo: 3,
      events: 3,
      heldBy: ['behind'],
      lostBy: ['far'],
    })
    const all = { trimmedTo: 7, events: 7, heldBy: [], lostBy: ['behind', 'far'] }
    expect(await streams.trim(queue, before, { dryRun, force: true })).toEqual(all)
    expect(await database.sql('SELECT trimmed_to FROM sluice.stream WHERE stream = $1', [queue])).toEqual([
      { trimmed_to: '0' },
    ])
    expect((await sluice.groups.list({ stream: queue })).map(({ lost }) => lost)).toEqual([null, null, null])
    expect(await streams.trim(queue, before, { force: true })).toEqual(all)
  })

  test('can be forced on a group, which is told', async ({ database, sluice, queue }) => {
    await made(database, queue)
    await sluice.groups.set(queue, 'g', { from: 'start' })
    await append(database, queue, 10)
    expect(await sluice.operate.streams.trim(queue, { position: 8 }, { force: true })).toMatchObject({ trimmedTo: 7 })
    expect((await sluice.operate.groups.list({ stream: queue }))[0]).toMatchObject({
      lost: { from: 1, to: 7 },
      unread: 3,
    })
  })
})

/** Makes a stream with settings, and returns its number. */
async function made(database: TestDatabase, stream: string, settings = 'segment_ms = 86400000'): Promise<number> {
  // Those of other tests stay as they are.
  await database.sql('UPDATE sluice.stream SET retain_ms = NULL, retain_bytes = NULL')
  await makeStream(database, stream)
  const [row] = await database.sql<{ id: number }>(
    `UPDATE sluice.stream SET ${settings} WHERE stream = $1 RETURNING id`,
    [stream],
  )
  return row!.id
}

/** Ten events in each of three segments; the last one is open. */
async function threeSegments(database: TestDatabase, stream: string): Promise<void> {
  await append(database, stream, 10)
  await closeSegment(database, stream)
  await append(database, stream, 10)
  await closeSegment(database, stream)
  await append(database, stream, 10)
}

/** Without marking any, so that a test says when that happens. */
async function closeSegment(database: TestDatabase, stream: string): Promise<void> {
  await database.sql(
    `UPDATE sluice.segment g SET opened_at = opened_at - interval '10 years' FROM sluice.stream s
     WHERE s.stream = $1 AND g.stream_id = s.id AND g.closed_at IS NULL`,
    [stream],
  )
  await database.sql(
    'SELECT sluice_private.open_next_segment(s), sluice_private.note_lasts(s) FROM sluice.stream s WHERE s.stream = $1',
    [stream],
  )
}

const NEVER_SOON = { kind: 'fixed', delay: '1d' } as const

function tables(id: number, ...segments: readonly number[]): readonly string[] {
  return segments.map((segment) => `sluice.event_${id}_${segment}`)
}

/** How far the groups of a stream are, in any partition. */
function positionsOf(database: TestDatabase, stream: string): Promise<readonly { readonly position: string }[]> {
  return database.sql('SELECT DISTINCT position FROM sluice.group_partitions WHERE stream = $1', [stream])
}

async function detaching(database: TestDatabase): Promise<number> {
  return (await database.sql('SELECT FROM pg_inherits WHERE inhdetachpending')).length
}

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

const GROUP_LOCK_WAITS = `SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
  WHERE d.datname = current_database() AND l.classid = 746503 AND NOT l.granted`
