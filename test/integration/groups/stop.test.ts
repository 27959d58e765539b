import { describe, expect } from 'vitest'
import { z } from 'zod'
import { ack, deadLetter, type Message, snooze } from '../../../src/message.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { readHeads } from '../../../src/table/stream/read-heads.ts'
import { raisedFlag } from '../../support/rows/flag.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { append, test as base } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

const RETRY = { kind: 'fixed', delay: '1h' } as const
const AT_ONCE = { kind: 'fixed', delay: 0 } as const

/** `test` with a stream of one partition, whose group "all" stops on failure. */
const test = base.extend('stops', async ({ database, sluice, stream }) => {
  const stops = `${stream}.one`
  await database.sql('SELECT sluice.create_stream($1, 1)', [stops])
  await sluice.groups.set(stops, 'all', { from: 'start', onFailure: 'stop' })
  return stops
})

/** Resolves when a consumer of the queue says again that it lives, which it does with every tenth poll. */
async function heartbeat({ sql }: TestDatabase, queue: string): Promise<void> {
  const seenAt = async () => {
    const [row] = await sql<{ at: Date | null }>(
      'SELECT max(seen_at) AS at FROM sluice.workers WHERE $1 = ANY (queues)',
      [queue],
    )
    return row?.at?.getTime() ?? 0
  }
  const before = await seenAt()
  await waitFor(async () => (await seenAt()) > before, { what: 'a heartbeat' })
}

describe('a group that stops on failure', () => {
  test('tries a failed event again before it delivers anything behind it', async ({ database, sluice, stops }) => {
    await append(database, stops, [[1, 'a'], [2, 'a'], [3, 'b'], [4]])
    const seen: string[] = []
    const pipeline = sluice.pipeline(stops, { group: 'all', retry: AT_ONCE }).handle(({ payload, attempt }) => {
      seen.push(`${payload}#${attempt}`)
      if (payload === 2 && attempt < 3) raise('not yet')
    })
    await expect.poll(async () => (await pipeline.runOnce()) && seen.at(-1)).toBe('4#1')
    expect(seen).toEqual(['1#1', '2#1', '2#2', '2#3', '3#1', '4#1'])
    expect(await database.sql('SELECT FROM sluice.message WHERE queue = $1', [`${stops}:all`])).toEqual([])
  })

  test('keeps what came before the failed event, and says what the partition waits for', async ({
    database,
    sluice,
    stops,
  }) => {
    await database.sql('CREATE TABLE kept (n integer)')
    const [, second] = await append(database, stops, [[1], [2], [3]])
    const pipeline = sluice.pipeline(stops, { group: 'all', retry: RETRY }).handle(async ({ payload }, { tx }) => {
      await tx.query('INSERT INTO kept VALUES ($1)', [payload])
      if (payload === 2) raise('no')
    })
    expect((await pipeline.runOnce()).counts).toMatchObject({ acked: 1, retried: 1, dead: 0 })
    expect((await pipeline.runOnce()).counts).toMatchObject({ acked: 0, retried: 0 })
    expect(await database.sql('SELECT n FROM kept')).toEqual([{ n: 1 }])
    const [partition] = await sluice.operate.groups.partitions(stops, 'all')
    expect(partition).toMatchObject({ nextPosition: second, unread: 2, blockedBy: { attempt: 1, error: 'no' } })
    expect(partition?.blockedBy?.until?.getTime()).toBeGreaterThan(Date.now())
    expect(await sluice.operate.groups.list({ stream: stops })).toMatchObject([
      { onFailure: 'stop', partitionsStopped: 0 },
    ])
  })

  test('stops its partition after the last attempt, until the event is tried again', async ({
    database,
    sluice,
    stops,
  }) => {
    const [first] = await append(database, stops, [
      [1, 'a'],
      [2, 'b'],
    ])
    const events: unknown[] = []
    const subscription = sluice.events.subscribe((event) => {
      if (event.kind === 'partition.stopped' || event.kind === 'message.dead') events.push(event)
    })
    const seen: unknown[] = []
    let isBroken = true
    const pipeline = sluice
      .pipeline(stops, { group: 'all', retry: AT_ONCE, maxAttempts: 2 })
      .handle(({ payload, attempt }) => {
        seen.push(`${payload}#${attempt}`)
        if (isBroken) raise('no')
      })
    await expect
      .poll(
        async () => (await pipeline.runOnce()) && (await sluice.operate.groups.partitions(stops, 'all'))[0]?.blockedBy,
      )
      .toMatchObject({
        until: null,
        attempt: 2,
        error: 'failed 2 of 2 attempts: no',
        failures: [
          { attempt: 1, error: 'no' },
          { attempt: 2, error: 'failed 2 of 2 attempts: no' },
        ],
      })
    await pipeline.runOnce()
    expect(seen).toEqual(['1#1', '1#2'])
    expect(await database.sql('SELECT FROM sluice.dead_letter WHERE queue = $1', [`${stops}:all`])).toEqual([])
    expect(await sluice.operate.groups.list({ stream: stops })).toMatchObject([{ partitionsStopped: 1, deferred: 0 }])
    expect(events).toMatchObject([
      { kind: 'partition.stopped', queue: `${stops}:all`, partition: 0, position: first, attempt: 2, error: 'no' },
    ])
    subscription.unsubscribe()
    isBroken = false
    expect(await sluice.operate.groups.retry(stops, 'all')).toBe(1)
    expect(await sluice.operate.groups.retry(stops, 'all')).toBe(0)
    await pipeline.runOnce()
    expect(seen).toEqual(['1#1', '1#2', '1#1', '2#1'])
  })

  test('waits for an event that the schema of one member refuses, until another takes it', async ({
    database,
    sluice,
    stops,
  }) => {
    await append(database, stops, [[1], ['two'], [3]])
    const streams = { [stops]: { schema: z.number() } }
    const retry = { kind: 'fixed', delay: '1h' } as const
    const stricter = startTestSluice(database, { streams }).pipeline(stops, { group: 'all', retry })
    const seen: unknown[] = []
    const handle = ({ payload }: Message) => void seen.push(payload)
    expect((await stricter.handle(handle).runOnce()).counts).toMatchObject({ acked: 1, retried: 1, dead: 0 })
    expect(await sluice.operate.groups.retry(stops, 'all')).toBe(1)
    await sluice.pipeline(stops, { group: 'all' }).handle(handle).runOnce()
    expect(seen).toEqual([1, 'two', 3])
  })

  test('passes over a skipped event, which becomes a dead letter', async ({ database, sluice, stops }) => {
    const [first, second] = await append(database, stops, [
      [1, 'a'],
      [2, 'a'],
    ])
    const seen: Message[] = []
    const pipeline = sluice.pipeline(stops, { group: 'all', maxAttempts: 1 }).handle((event) => {
      seen.push(event)
      if (event.payload === 1 && seen.length === 1) raise('no')
    })
    await pipeline.runOnce()
    expect(await sluice.operate.groups.skip(stops, 'all', Number(second))).toBe(false)
    expect(await sluice.operate.groups.skip(stops, 'all', Number(first))).toBe(true)
    expect(await sluice.operate.groups.skip(stops, 'all', Number(first))).toBe(false)
    const queue = `${stops}:all`
    expect(
      await database.sql('SELECT payload, attempt, reason, error FROM sluice.dead_letters WHERE queue = $1', [queue]),
    ).toEqual([{ payload: 1, attempt: 1, reason: 'skipped', error: 'failed 1 of 1 attempts: no' }])
    await pipeline.runOnce()
    expect(await sluice.operate.deadLetters.redrive({ queue })).toBe(1)
    await pipeline.runOnce()
    expect(seen.map(({ position }) => position)).toEqual([first, second, first])
  })

  test('stops at what its handler gives up, and waits for what it snoozes', async ({ database, sluice, stops }) => {
    await append(database, stops, [[1], [2]])
    const outcomes = [snooze({ after: 0 }), deadLetter('no'), ack(), ack()]
    const seen: string[] = []
    const pipeline = sluice.pipeline(stops, { group: 'all' }).handle(({ payload, attempt }) => {
      seen.push(`${payload}#${attempt}`)
      return outcomes.shift()
    })
    expect((await pipeline.runOnce()).counts).toMatchObject({ snoozed: 1 })
    const blockedBy = async () => (await sluice.operate.groups.partitions(stops, 'all'))[0]?.blockedBy
    await expect
      .poll(async () => (await pipeline.runOnce()) && (await blockedBy()))
      .toMatchObject({ until: null, attempt: 1 })
    await sluice.operate.groups.retry(stops, 'all', { partition: 0 })
    await pipeline.runOnce()
    expect(seen).toEqual(['1#1', '1#1', '1#1', '2#1'])
  })

  test('lets its other partitions go on', async ({ database, sluice, stream }) => {
    await sluice.groups.set(stream, 'all', { onFailure: 'stop' })
    await append(
      database,
      stream,
      Array.from({ length: 40 }, (_, n) => [n, `k${n}`] as const),
    )
    const [bad] = await database.sql<{ partition: number }>(
      'SELECT partition FROM sluice.events($1) WHERE payload = $2',
      [stream, '7'],
    )
    const partitions = await database.sql<{ n: number }>(
      'SELECT payload::int AS n FROM sluice.events($1) WHERE (partition <> $2 OR payload::int < 7) ORDER BY n',
      [stream, bad?.partition],
    )
    const seen: number[] = []
    const pipeline = sluice.pipeline(stream, { group: 'all', retry: RETRY, batchSize: 100 }).handle(({ payload }) => {
      if (payload === 7) raise('no')
      seen.push(payload as number)
    })
    await pipeline.runOnce()
    expect(seen.toSorted((a, b) => a - b)).toEqual(partitions.map(({ n }) => n))
  })

  test('handles the events of a batch alone if one of them is to be tried again before others', async ({
    database,
    sluice,
    stops,
  }) => {
    await database.sql('CREATE TABLE batched (n integer)')
    await append(database, stops, [[1], [2], [3]])
    const pipeline = sluice.pipeline(stops, { group: 'all', retry: RETRY }).handleBatch(async (events, { tx }) => {
      for (const { payload } of events) await tx.query('INSERT INTO batched VALUES ($1)', [payload])
      return events.map(({ payload }) => (payload === 2 ? deadLetter('no') : ack()))
    })
    expect((await pipeline.runOnce()).counts).toMatchObject({ acked: 1, dead: 0 })
    expect((await sluice.operate.groups.partitions(stops, 'all'))[0]).toMatchObject({
      unread: 2,
      blockedBy: { attempt: 1 },
    })
    await sluice.operate.groups.skip(stops, 'all', 2)
    await pipeline.runOnce()
    expect(await database.sql('SELECT n FROM batched ORDER BY n')).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
  })

  test('stops at an event that kills its process, and does not call its handler for it again', async ({
    database,
    stops,
  }) => {
    const [first] = await append(database, stops, [[1], [2]])
    await database.sql(
      `INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone)
       SELECT $1, -$2::bigint, n, 1, 'vanished', 'w', true FROM generate_series(1, 3) n`,
      [`${stops}:all`, first],
    )
    const sluice = startTestSluice(database)
    const seen: unknown[] = []
    const pipeline = sluice.pipeline(stops, { group: 'all' }).handle(({ payload }) => void seen.push(payload))
    await expect
      .poll(
        async () => (await pipeline.runOnce()) && (await sluice.operate.groups.partitions(stops, 'all'))[0]?.blockedBy,
      )
      .toMatchObject({ until: null, attempt: 3, error: expect.stringMatching(/^crashed: 3 processes/) })
    expect(seen).toEqual([])
    await sluice.operate.groups.retry(stops, 'all')
    await pipeline.runOnce()
    expect(seen).toEqual([1, 2])
  })

  test('counts an attempt for an event whose handler breaks the connection', async ({ database, sluice, stops }) => {
    await append(database, stops, [[1], [2]])
    const pipeline = sluice
      .pipeline(stops, { group: 'all', retry: RETRY, batchSize: 1 })
      .handle(async (_, { tx }) => void (await tx.query('SELECT pg_terminate_backend(pg_backend_pid())')))
    const blockedBy = async () => (await sluice.operate.groups.partitions(stops, 'all'))[0]?.blockedBy
    await expect.poll(async () => (await pipeline.runOnce()) && (await blockedBy())).toMatchObject({ attempt: 1 })
  })

  test.for([
    ['stops', 'stop'],
    ['has deferred as many as it may', 'defer'],
  ] as const)(
    'that %s tries a failed event again in a process that slept when it failed',
    async ([, onFailure], { database, sluice, stops }) => {
      await sluice.groups.set(stops, 'all', { onFailure })
      const seen: unknown[] = []
      const sleeper = startTestSluice(database, { pollInterval: '100ms' })
      const running = sleeper
        .pipeline(stops, { group: 'all' })
        .handle(({ payload }) => void seen.push(payload))
        .start()
      const hold = (until: string) =>
        database.sql(
          `UPDATE sluice.group_progress p SET held_until = $2::timestamptz, attempt = 1
         FROM sluice.stream_group g WHERE g.id = p.group_id AND g.stream = $1`,
          [stops, until],
        )
      await hold('infinity')
      await append(database, stops, [[1]])
      // Its polls have seen the new head, and that the partition waits: what it hears of from now on is only the next try.
      for (const _ of [1, 2, 3]) await heartbeat(database, `${stops}:all`)
      await raisedFlag(database, `/${stops}`)
      await hold('now')
      await expect.poll(() => seen).toEqual([1])
      await running.stop()
      expect(await sluice.operate.groups.partitions(stops, 'all')).toMatchObject([{ unread: 0, blockedBy: null }])
    },
  )

  test('is told of what is due by a poll only where it consumes the group', async ({ database, sluice, stops }) => {
    await sluice.groups.set(stops, 'other')
    await append(database, stops, [[1]])
    await database.sql(
      `UPDATE sluice.group_progress p SET held_until = clock_timestamp(), attempt = 1
       FROM sluice.stream_group g WHERE g.id = p.group_id AND g.stream = $1 AND g.name = 'all'`,
      [stops],
    )
    const execute: Execute = async ({ text }, values) => database.sql(text, [...values])
    const polled = (group: string) => readHeads(execute, [stops], [`${stops}:${group}`])
    const heads = [{ stream: stops, head: '1' }]
    expect(await polled('other')).toMatchObject({ heads, groups: [{ queue: `${stops}:other`, heldMs: null }] })
    expect(await polled('all')).toMatchObject({
      heads,
      groups: [{ queue: `${stops}:all`, heldMs: expect.any(Number) }],
    })
  })

  test('shows an event that is due and that nobody tries, and has it tried again or skipped', async ({
    database,
    sluice,
    stops,
  }) => {
    const [first, second] = await append(database, stops, [[1], [2]])
    const pipeline = sluice.pipeline(stops, { group: 'all', retry: AT_ONCE }).handle(() => raise('no'))
    await pipeline.runOnce()
    const [partition] = await sluice.operate.groups.partitions(stops, 'all')
    expect(partition).toMatchObject({ nextPosition: first, blockedBy: { error: expect.stringContaining('no') } })
    expect(await sluice.operate.groups.retry(stops, 'all')).toBe(1)
    expect(await sluice.operate.groups.partitions(stops, 'all')).toMatchObject([{ blockedBy: null }])
    await pipeline.runOnce()
    expect(await sluice.operate.groups.skip(stops, 'all', Number(first))).toBe(true)
    expect(await sluice.operate.groups.partitions(stops, 'all')).toMatchObject([
      { nextPosition: second, blockedBy: null },
    ])
  })

  test('that is to defer from now on tries its failed events again, and defers them', async ({
    database,
    sluice,
    stops,
  }) => {
    await append(database, stops, [
      [1, 'a'],
      [2, 'a'],
      [3, 'b'],
    ])
    const pipeline = sluice
      .pipeline(stops, { group: 'all', retry: RETRY, maxAttempts: 2 })
      .handle(({ payload }) => (payload === 1 ? raise('no') : undefined))
    expect((await pipeline.runOnce()).counts).toMatchObject({ acked: 0, retried: 1 })
    await sluice.groups.set(stops, 'all', { onFailure: 'defer' })
    expect((await pipeline.runOnce()).counts).toMatchObject({ acked: 1, retried: 1 })
    const deferred = () =>
      database.sql('SELECT payload, attempt FROM sluice.message WHERE queue = $1 ORDER BY id', [`${stops}:all`])
    expect(await deferred()).toEqual([
      { payload: 1, attempt: 1 },
      { payload: 2, attempt: 0 },
    ])
    // What it has deferred goes first when it stops again.
    await sluice.groups.set(stops, 'all', { onFailure: 'stop' })
    await append(database, stops, [
      [4, 'a'],
      [5, 'b'],
    ])
    await pipeline.runOnce()
    expect(await deferred()).toHaveLength(2)
    expect((await sluice.operate.groups.partitions(stops, 'all'))[0]).toMatchObject({ unread: 2, blockedBy: null })
  })

  test('is moved away from an event at which it has stopped', async ({ database, sluice, stops }) => {
    await append(database, stops, [[1], [2]])
    const seen: unknown[] = []
    const pipeline = sluice.pipeline(stops, { group: 'all', maxAttempts: 1 }).handle(({ payload }) => {
      seen.push(payload)
      if (payload === 1) raise('no')
    })
    await pipeline.runOnce()
    await sluice.operate.groups.seek(stops, 'all', { position: 2 })
    await pipeline.runOnce()
    expect(seen).toEqual([1, 2])
  })

  test('refuses what it cannot be told', async ({ sluice, stops }) => {
    // @ts-expect-error there is no such word
    const told = sluice.groups.set(stops, 'all', { onFailure: 'skip' })
    await expect(told).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(sluice.operate.groups.retry(stops, 'none')).rejects.toMatchObject({ code: 'GROUP_UNKNOWN' })
    await expect(sluice.operate.groups.skip(stops, 'all', 0)).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })
})
