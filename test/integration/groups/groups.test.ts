import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { THIS_DATABASE } from '../../support/rows/flag.ts'
import { append, jumpSegment, makeStream } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const GROUP = 'billing'

describe('a group', () => {
  test('is made once, at the offset where it is to begin', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await append(database, queue, 100)
    expect(await sluice.groups.set(queue, 'start', { from: 'start' })).toBe(true)
    expect(await sluice.groups.set(queue, 'start', { from: 'end' })).toBe(false)
    expect(await sluice.groups.set(queue, 'end')).toBe(true)
    expect(await sluice.groups.set(queue, 'position', { from: { position: 91 } })).toBe(true)
    expect(await sluice.groups.set(queue, 'time', { from: { time: new Date(Date.now() + 60_000) } })).toBe(true)
    await append(database, queue, 1)
    const groups = await sluice.operate.groups.list({ stream: queue })
    expect(groups.map(({ group, unread }) => [group, unread])).toEqual([
      ['end', 1],
      ['position', 11],
      ['start', 101],
      ['time', 1],
    ])
  })

  test('that begins at a position reads nothing before it, also of an append that is open', async ({
    database,
    sluice,
    queue,
  }) => {
    await makeStream(database, queue)
    await append(database, queue, 10)
    const open = await connect(database)
    await open.query('BEGIN')
    await open.query(`SELECT sluice.append($1, '1', ordering_key => 'k' || n) FROM generate_series(1, 100) AS n`, [
      queue,
    ])
    await append(database, queue, 10)
    await sluice.groups.set(queue, GROUP, { from: { position: 116 } })
    await open.query('COMMIT')
    expect(await only(sluice.operate.groups.list({ stream: queue }))).toMatchObject({ unread: 5 })
  })

  test('is looked at by its stream without a look at the others', async ({ database, sluice, queue }) => {
    for (const stream of [queue, `${queue}.2`, `${queue}.3`]) {
      await makeStream(database, stream)
      await sluice.groups.set(stream, GROUP)
    }
    const calls = async (view: string, fn: string) => {
      const [row] = await database.sql<{ 'QUERY PLAN': unknown }>(
        `EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM sluice.${view} v WHERE v.stream = '${queue}'`,
      )
      return [
        ...JSON.stringify(row).matchAll(new RegExp(`"Function Name":"${fn}"[^}]*?"Actual Loops":(\\d+)`, 'g')),
      ].map(([, n]) => Number(n))
    }
    expect(await calls('streams', 'read_stream')).toEqual([1])
    expect(await calls('groups', 'read_group_partitions')).toEqual([1])
    expect(await calls('group_partitions', 'read_group_partitions')).toEqual([1])
  })

  test('is told options when it is there already, and keeps what is left out', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP, { deferLimit: 5 })
    await sluice.groups.set(queue, GROUP)
    expect(await only(sluice.operate.groups.list({ stream: queue }))).toMatchObject({
      deferLimit: 5,
      keepUnread: null,
    })
    await sluice.groups.set(queue, GROUP, { deferLimit: 7, keepUnread: false })
    expect(await only(sluice.operate.groups.list({ stream: queue }))).toMatchObject({
      deferLimit: 7,
      keepUnread: false,
    })
  })

  test('shows what it has to read, exactly up to 1,000 a partition, and about so beyond', async ({
    database,
    sluice,
    queue,
  }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP, { from: 'start' })
    await append(database, queue, 10_000)
    const status = await only(sluice.operate.groups.list({ stream: queue }))
    expect(status).toMatchObject({
      unread: 10_000,
      deferred: 0,
      dead: 0,
      members: 0,
      lost: null,
      pausedAt: null,
      partitionsHeldBack: 0,
    })
    expect(status.oldestUnreadAgeMs).toBeGreaterThanOrEqual(0)
    await jumpSegment(database, queue)
    await append(database, queue, 40_000)
    const { unread } = await only(sluice.operate.groups.list({ stream: queue }))
    expect(unread).toBeGreaterThan(45_000)
    expect(unread).toBeLessThan(55_000)
    const partitions = await sluice.operate.groups.partitions(queue, GROUP)
    expect(partitions).toHaveLength(16)
    expect(Math.min(...partitions.map(({ nextPosition }) => nextPosition ?? 0))).toBe(1)
  })

  test('shows which append holds its partitions back', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP, { from: 'start' })
    const open = await connect(database)
    await open.query('BEGIN')
    await open.query(`SELECT sluice.append($1, '1', 'k')`, [queue])
    const [pid] = (await open.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows
    await database.sql(`SELECT sluice.append($1, '2', 'k')`, [queue])
    expect(await only(sluice.operate.groups.list({ stream: queue }))).toMatchObject({
      unread: 1,
      partitionsHeldBack: 1,
    })
    expect(await only(sluice.operate.streams.list({ stream: queue }))).toMatchObject({
      openAppends: 1,
      openPid: pid?.pid,
      head: 2,
    })
    const held = (await sluice.operate.groups.partitions(queue, GROUP)).filter(({ openPid }) => openPid !== null)
    expect(held).toMatchObject([{ openPid: pid?.pid, stableEnd: 0, openForMs: expect.any(Number) }])
    await open.query('COMMIT')
    expect(await only(sluice.operate.groups.list({ stream: queue }))).toMatchObject({
      unread: 2,
      partitionsHeldBack: 0,
    })
  })

  test('is moved to an offset, and a dry run says how much that is', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP)
    await append(database, queue, 1_000)
    const { groups } = sluice
    expect(await groups.seek(queue, GROUP, { position: 901 }, { dryRun: true })).toEqual({
      events: 100,
      before: 1_000,
      dropped: 0,
    })
    expect((await only(groups.list({ stream: queue }))).unread).toBe(1_000)
    expect(await groups.seek(queue, GROUP, { position: 901 })).toEqual({ events: 100, before: 1_000, dropped: 0 })
    expect((await only(groups.list({ stream: queue }))).unread).toBe(100)
    expect(await groups.seek(queue, GROUP, { time: new Date(Date.now() - 3_600_000) })).toEqual({
      events: 1_000,
      before: 100,
      dropped: 0,
    })
    expect(await groups.seek(queue, GROUP, 'end')).toMatchObject({ events: 0, before: 1_000 })
    expect((await only(groups.list({ stream: queue }))).unread).toBe(0)
  })

  test('is not moved while it has deferred events, unless told what becomes of them', async ({
    database,
    sluice,
    queue,
  }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP)
    await defer(database, queue, 3)
    const { groups } = sluice
    await expect(groups.seek(queue, GROUP, 'start')).rejects.toMatchObject({
      code: 'GROUP_HAS_DEFERRED',
      message: expect.stringContaining(`3 events wait in queue "${queue}:${GROUP}"`),
    })
    expect(await groups.seek(queue, GROUP, 'start', { deferred: 'keep' })).toMatchObject({ dropped: 0 })
    expect(await only(groups.list({ stream: queue }))).toMatchObject({ deferred: 3 })
    expect(await groups.seek(queue, GROUP, 'start', { deferred: 'drop' })).toMatchObject({ dropped: 3 })
    expect(await only(groups.list({ stream: queue }))).toMatchObject({ deferred: 0 })
  })

  test('is moved when the batches that it has in hand have ended', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP, { from: 'start' })
    await append(database, queue, 10)
    const batch = await connect(database)
    await batch.query('BEGIN')
    await batch.query(
      'SELECT pg_advisory_xact_lock(746503, g.id << 6 | 3) FROM sluice.stream_group g WHERE g.stream = $1',
      [queue],
    )
    let moved = false
    const seek = sluice.operate.groups.seek(queue, GROUP, 'end').then(() => {
      moved = true
    })
    await waitFor(
      async () => {
        const rows = await database.sql(
          `SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 746503 AND NOT l.granted AND ${THIS_DATABASE}`,
        )
        return rows.length === 1
      },
      { what: 'the seek to wait' },
    )
    expect(moved).toBe(false)
    await batch.query('COMMIT')
    await seek
    expect((await only(sluice.operate.groups.list({ stream: queue }))).unread).toBe(0)
  })

  test('reads on from where it was moved, also while its workers run', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP, { from: 'start' })
    const handled: unknown[] = []
    const pipeline = sluice.pipeline(queue, { group: GROUP }).handle(({ payload }) => void handled.push(payload))
    const running = pipeline.start()
    await append(database, queue, 20)
    await waitFor(() => handled.length === 20, { what: 'the events' })
    await sluice.operate.groups.seek(queue, GROUP, { position: 11 })
    await waitFor(() => handled.length === 30, { what: 'the last ten again' })
    await running.drain()
    expect(handled.slice(20).toSorted((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 10 }, (_, n) => n + 11),
    )
    expect((await only(sluice.operate.groups.list({ stream: queue }))).unread).toBe(0)
  })

  test('shows what its workers have in hand, with positions, and who they are', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP, { from: 'start' })
    await append(database, queue, 1)
    const begun = Promise.withResolvers<void>()
    const end = Promise.withResolvers<void>()
    const running = sluice
      .pipeline(queue, { group: GROUP })
      .handle(async () => {
        begun.resolve()
        await end.promise
      })
      .start()
    await begun.promise
    const inHand = 'SELECT event_position, attempt FROM sluice.in_flight WHERE queue = $1'
    const read = async () => {
      const rows = await database.sql(inHand, [`${queue}:${GROUP}`])
      return rows.length > 0 && rows
    }
    expect(await waitFor(read, { what: 'the record' })).toEqual([{ event_position: '1', attempt: 1 }])
    const [status] = await sluice.operate.queues.list({ queue: `${queue}:${GROUP}` })
    expect(status).toMatchObject({ ready: 0, inFlight: 1, workers: 1 })
    expect(await only(sluice.operate.groups.list({ stream: queue }))).toMatchObject({ members: 1 })
    end.resolve()
    await running.drain()
  })

  test('is paused and resumed as its queue', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP)
    const { groups, queues } = sluice.operate
    expect(await groups.pause(queue, GROUP, { by: 'ada', reason: 'rollout' })).toBe(true)
    expect(await groups.pause(queue, GROUP)).toBe(false)
    expect((await only(groups.list({ stream: queue }))).pausedAt).toBeInstanceOf(Date)
    expect(await queues.settings.get(`${queue}:${GROUP}`)).toMatchObject({ pausedAt: expect.any(Date) })
    expect(await groups.resume(queue, GROUP)).toBe(true)
    expect((await only(groups.list({ stream: queue }))).pausedAt).toBeNull()
    await expect(groups.pause(queue, 'other')).rejects.toMatchObject({ code: 'GROUP_UNKNOWN' })
  })

  test('is deleted with all that is its own, and nothing else', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, GROUP)
    await sluice.groups.set(queue, 'other')
    await append(database, queue, 5)
    await defer(database, queue, 2)
    await database.sql(
      `INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at)
       VALUES ($1, nextval(pg_get_serial_sequence('sluice.message', 'id')), 5, 1, '1', '{}', 1, 'x', now())`,
      [`${queue}:${GROUP}`],
    )
    await sluice.operate.groups.pause(queue, GROUP)
    expect(await sluice.operate.groups.delete(queue, GROUP)).toEqual({ deferred: 2, deadLetters: 1 })
    expect(await only(sluice.operate.groups.list({ stream: queue }))).toMatchObject({ group: 'other', unread: 5 })
    expect(await sluice.operate.queues.settings.get(`${queue}:${GROUP}`)).toBeUndefined()
    await expect(sluice.operate.groups.delete(queue, GROUP)).rejects.toMatchObject({ code: 'GROUP_UNKNOWN' })
  })

  test.for([
    ['moved', `SELECT sluice.seek_group($1, $2, '{0}', 'keep')`, [{ unread: 5, deferred: 1 }]],
    ['deleted', `SELECT sluice.delete_group($1, $2)`, []],
  ] as const)(
    'is %s as it is when its turn has come, also if it is another one of its name by then',
    async ([, text, groups], { database, sluice, queue }) => {
      await makeStream(database, queue)
      await append(database, queue, 5)
      await sluice.groups.set(queue, GROUP)
      const [other, late] = [await connect(database), await connect(database)]
      await other.query('BEGIN')
      await other.query('SELECT sluice.delete_group($1, $2)', [queue, GROUP])
      const changing = late.query(text, [queue, GROUP])
      const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      await waitFor(async () => (await database.sql(waits)).length > 0, { what: 'the other one to wait' })
      await other.query('SELECT sluice.create_group($1, $2)', [queue, GROUP])
      await other.query(`INSERT INTO sluice.message (queue, payload, event_position) VALUES ($1, '1', 1)`, [
        `${queue}:${GROUP}`,
      ])
      await other.query('COMMIT')
      await changing
      expect(await sluice.operate.groups.list({ stream: queue })).toMatchObject(groups)
    },
  )

  test('that is to begin behind the end begins there', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await append(database, queue, 5)
    await database.sql(`SELECT sluice.create_group($1, 'made', '{1000}'), sluice.create_group($1, 'moved', '{0}')`, [
      queue,
    ])
    await database.sql(`SELECT sluice.seek_group($1, 'moved', '{1000}')`, [queue])
    await append(database, queue, 2)
    const groups = await sluice.operate.groups.list({ stream: queue })
    expect(groups.map(({ group, unread }) => [group, unread])).toEqual([
      ['made', 2],
      ['moved', 2],
    ])
  })

  test('is made at one position, or at one for each partition', async ({ database, queue }) => {
    await makeStream(database, queue)
    for (const startAt of ['{}', '{1,2}', '{NULL}']) {
      const made = database.sql(`SELECT sluice.create_group($1, 'odd', $2)`, [queue, startAt])
      await expect(made).rejects.toThrow(`start_at: expected 1 or 16 positions, received ${startAt}`)
    }
  })

  test('needs a stream, and a name that fits', async ({ database, sluice, queue }) => {
    await expect(sluice.groups.set(queue, GROUP)).rejects.toMatchObject({ code: 'STREAM_UNKNOWN' })
    await makeStream(database, queue)
    const { groups } = sluice
    await expect(sluice.groups.set(queue, 'a b')).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(sluice.groups.set(queue, GROUP, { deferLimit: -1 })).rejects.toThrow(
      'groups.set.deferLimit: expected an integer',
    )
    await expect(groups.seek(queue, GROUP, 'start')).rejects.toMatchObject({ code: 'GROUP_UNKNOWN' })
    await expect(groups.seek(queue, GROUP, 'start', { dryRun: true })).rejects.toMatchObject({ code: 'GROUP_UNKNOWN' })
    expect(await groups.partitions(queue, GROUP)).toEqual([])
  })
})

async function only<T>(rows: Promise<readonly T[]>): Promise<T> {
  const [first, ...others] = await rows
  if (first === undefined || others.length > 0) throw new Error('expected one')
  return first
}

/** Messages in the group's queue, as a batch leaves them whose events have failed. */
async function defer(database: TestDatabase, stream: string, n: number): Promise<void> {
  await database.sql(
    `INSERT INTO sluice.message (queue, payload, event_position) SELECT $1, to_jsonb(n), n FROM generate_series(1, $2::integer) n`,
    [`${stream}:${GROUP}`, n],
  )
}

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
