import { describe, expect } from 'vitest'
import * as z from 'zod'
import { ack, deadLetter, type Message, snooze } from '../../../src/message.ts'
import { EventClaimer } from '../../../src/source/log/event-claimer.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { readGroup } from '../../../src/table/stream/known-group.ts'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { append, test } from '../../support/streams.ts'
import { deferred } from '../../support/wait.ts'
import { TestWakeUp } from '../../support/wake-up.ts'

const RETRY = { kind: 'fixed', delay: '1h' } as const

describe('an event of a group', () => {
  test('that its handler gives up is a dead letter, and comes back with its id when it is redriven', async ({
    database,
    sluice,
    stream,
  }) => {
    const [position] = await append(database, stream, [
      [1, 'a'],
      [2, 'a'],
    ])
    const seen: Message[] = []
    const pipeline = sluice.pipeline(stream, { group: 'all' }).handle((event) => {
      seen.push(event)
      return event.payload === 1 && seen.length === 1 ? deadLetter('no') : ack()
    })
    await pipeline.runOnce()
    expect(seen.map(({ payload }) => payload)).toEqual([1, 2])
    const queue = `${stream}:all`
    expect(
      await database.sql('SELECT queue, reason, payload FROM sluice.dead_letters WHERE queue = $1', [queue]),
    ).toEqual([{ queue, reason: 'no', payload: 1 }])
    expect(await sluice.operate.deadLetters.redrive({ queue })).toBe(1)
    await pipeline.runOnce()
    expect(seen.at(-1)).toMatchObject({ id: `${stream}/${position}`, stream, position, payload: 1 })
  })

  test('dies of its last attempt, also if that is the first', async ({ database, sluice, stream }) => {
    await append(database, stream, [[1]])
    const pipeline = sluice.pipeline(stream, { group: 'all', maxAttempts: 1 }).handle(() => raise('no'))
    expect((await pipeline.runOnce()).counts).toMatchObject({ dead: 1 })
    expect(
      await database.sql('SELECT attempt, error FROM sluice.dead_letter WHERE queue = $1', [`${stream}:all`]),
    ).toMatchObject([{ attempt: 1 }])
  })

  test('that is snoozed keeps what its handler wrote, and its key waits', async ({ database, sluice, stream }) => {
    await database.sql('CREATE TABLE snoozed (n integer)')
    await append(database, stream, [
      [1, 'a'],
      [2, 'a'],
      [3, 'b'],
    ])
    const pipeline = sluice.pipeline(stream, { group: 'all' }).handle(async ({ payload }, { tx }) => {
      await tx.query('INSERT INTO snoozed VALUES ($1)', [payload])
      return payload === 1 ? snooze({ after: '1h' }) : ack()
    })
    expect((await pipeline.runOnce()).counts).toMatchObject({ acked: 1, snoozed: 1 })
    expect(await database.sql('SELECT n FROM snoozed ORDER BY n')).toEqual([{ n: 1 }, { n: 3 }])
    expect(
      await database.sql('SELECT payload, attempt FROM sluice.message WHERE queue = $1 ORDER BY id', [`${stream}:all`]),
    ).toEqual([
      { payload: 1, attempt: 0 },
      { payload: 2, attempt: 0 },
    ])
  })

  test('is handled in a batch, and alone if the batch fails', async ({ database, sluice, stream }) => {
    await append(database, stream, [
      [1, 'a'],
      [2, 'b'],
      [3, 'c'],
    ])
    const calls: unknown[][] = []
    const pipeline = sluice.pipeline(stream, { group: 'all', retry: RETRY }).handleBatch((events) => {
      calls.push(events.map(({ payload }) => payload).toSorted())
      if (events.some(({ payload }) => payload === 2)) raise('no')
      return events.map(() => ack())
    })
    expect((await pipeline.runOnce()).counts).toMatchObject({ acked: 2, retried: 1 })
    expect(calls[0]).toEqual([1, 2, 3])
  })

  test('that is to be tried again comes before new ones, also where none has a key', async ({
    database,
    sluice,
    stream,
  }) => {
    await append(database, stream, [[1]])
    const seen: string[] = []
    const handle = ({ payload, attempt }: Message) => {
      seen.push(`${payload}#${attempt}`)
      if (seen.length === 1) raise('no')
    }
    await sluice.pipeline(stream, { group: 'all', retry: RETRY }).handle(handle).runOnce()
    await append(database, stream, [[2], [3]])
    await database.sql('SELECT sluice.run_now(m.queue, m.id) FROM sluice.message m WHERE m.queue = $1', [
      `${stream}:all`,
    ])
    await startTestSluice(database).pipeline(stream, { group: 'all' }).handle(handle).runOnce()
    expect(seen.slice(0, 2)).toEqual(['1#1', '1#2'])
    expect(seen.toSorted()).toEqual(['1#1', '1#2', '2#1', '3#1'])
  })

  test('stays behind one that its batch had no time for, also if its schema refuses it', async ({
    database,
    stream,
  }) => {
    const one = `${stream}.one`
    await database.sql('SELECT sluice.create_stream($1, 1)', [one])
    const sluice = startTestSluice(database, { streams: { [one]: { schema: z.number() } } })
    await sluice.groups.set(one, 'all', { from: 'start' })
    await append(database, one, [[1], [2], ['three'], [4]])
    const failed: string[] = []
    sluice.events.subscribe((event) => {
      if (event.kind === 'message.failed' || event.kind === 'batch.released') failed.push(event.kind)
    })
    const seen: unknown[] = []
    const pipeline = sluice
      .pipeline(one, { group: 'all', retry: RETRY, timeout: '1s' })
      .handleBatch(async (events, { signal }) => {
        const [first] = events
        if (first?.payload === 1 && events.length > 1) raise('not together')
        if (first?.payload === 1) await new Promise((_, reject) => signal.addEventListener('abort', reject))
        for (const { payload } of events) seen.push(payload)
      })
    expect((await pipeline.runOnce()).counts).toMatchObject({ acked: 2, retried: 2 })
    expect(seen).toEqual([2, 4])
    expect(failed).toEqual(['message.failed', 'message.failed'])
  })

  test('whose handler breaks the connection counts an attempt, and the others do not', async ({
    database,
    sluice,
    stream,
  }) => {
    await append(database, stream, [
      [1, 'a'],
      [2, 'b'],
      [3, 'a'],
    ])
    const seen: string[] = []
    const pipeline = sluice
      .pipeline(stream, { group: 'all', retry: RETRY })
      .handle(async ({ payload, attempt }, { tx }) => {
        if (payload === 1) await tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
        else seen.push(`${payload}#${attempt}`)
      })
    await expect.poll(async () => (await pipeline.runOnce()).counts.retried).toBe(1)
    expect(seen.at(-1)).toBe('2#1')
    expect(
      await database.sql('SELECT payload, attempt FROM sluice.message WHERE queue = $1 ORDER BY id', [`${stream}:all`]),
    ).toEqual([
      { payload: 1, attempt: 1 },
      { payload: 3, attempt: 0 },
    ])
  })

  test('is delivered to a subscriber that settles it', async ({ database, sluice, stream }) => {
    await append(database, stream, [[1], [2]])
    const seen: unknown[] = []
    for await (const delivery of sluice.deliveries(stream, { group: 'all', demand: 1 })) {
      seen.push(delivery.message.payload)
      delivery.ack()
      if (seen.length === 2) break
    }
    expect(seen.toSorted()).toEqual([1, 2])
  })
})

describe('a member that sleeps until it is notified', () => {
  for (const orderingKey of [undefined, 'a']) {
    const event = orderingKey === undefined ? 'an event' : 'an event with a key'

    test(`goes on at once with ${event} that is redriven`, async ({ database, stream }) => {
      const seen: number[] = []
      const sluice = startTestSluice(database, { pollInterval: NO_POLL })
      const pipeline = sluice.pipeline(stream, { group: 'all' }).handle(({ attempt }) => {
        seen.push(attempt)
        return seen.length === 1 ? deadLetter('no') : ack()
      })
      pipeline.start()
      const [position] = await append(database, stream, [orderingKey === undefined ? [1] : [1, orderingKey]])
      const queue = `${stream}:all`
      const dead = async () => (await sluice.operate.deadLetters.list({ queue })).deadLetters
      await expect.poll(dead).toMatchObject([{ position }])
      await raisedFlag(database, `/${stream}`)
      expect(await sluice.operate.deadLetters.redrive({ queue })).toBe(1)
      await expect.poll(() => seen).toEqual([1, 1])
    })

    test(`goes on at once with ${event} that is told to run now`, async ({ database, stream }) => {
      const seen: number[] = []
      const sluice = startTestSluice(database, { pollInterval: NO_POLL })
      sluice
        .pipeline(stream, { group: 'all', retry: RETRY })
        .handle(({ attempt }) => {
          seen.push(attempt)
          if (attempt === 1) raise('no')
        })
        .start()
      const [position] = await append(database, stream, [orderingKey === undefined ? [1] : [1, orderingKey]])
      const queue = `${stream}:all`
      const waiting = async () => (await sluice.operate.messages.list({ queue })).messages
      await expect.poll(waiting).toMatchObject([{ position, attempt: 1 }])
      await raisedFlag(database, `/${stream}`)
      const [{ id } = { id: '' }] = await waiting()
      expect(await sluice.operate.messages.runNow(queue, id)).toMatchObject({ result: 'changed' })
      await expect.poll(() => seen).toEqual([1, 2])
    })
  }

  for (const how of ['cancelled', 'cleared'] as const) {
    test(`is notified of an event when the one of its key that it waits for is ${how}`, async ({
      database,
      sluice,
      stream,
    }) => {
      await append(database, stream, [
        [1, 'a'],
        [2, 'a'],
      ])
      await sluice
        .pipeline(stream, { group: 'all', retry: RETRY })
        .handle(() => raise('no'))
        .runOnce()
      const queue = `${stream}:all`
      const { messages } = await sluice.operate.messages.list({ queue, state: 'retrying' })
      const wakeUp = await TestWakeUp.start(database)
      wakeUp.sleep(`/${stream}`)
      await raisedFlag(database, `/${stream}`)
      if (how === 'cleared') expect(await sluice.operate.queues.clear(queue, { state: 'retrying' })).toBe(1)
      else expect(await sluice.operate.messages.cancel(queue, messages[0]!.id)).toMatchObject({ result: 'cancelled' })
      await wakeUp.listener.marker(database)
      expect(wakeUp.listener.notified).toContain(`/${stream}`)
      await wakeUp.stop()
    })
  }
})

describe('a group', () => {
  test('is independent of another one of its stream', async ({ database, sluice, stream }) => {
    await database.sql("SELECT sluice.create_group($1, 'other', '{0}')", [stream])
    await append(database, stream, [
      [1, 'a'],
      [2, 'a'],
    ])
    const one = sluice.pipeline(stream, { group: 'all', retry: RETRY }).handle(() => raise('no'))
    const other = sluice.pipeline(stream, { group: 'other' }).handle(() => undefined)
    expect((await one.runOnce()).counts).toMatchObject({ acked: 0, retried: 1 })
    expect((await other.runOnce()).counts).toMatchObject({ acked: 2 })
  })

  test('shares its events among members while each has some in hand', async ({ database, sluice, stream }) => {
    await append(
      database,
      stream,
      Array.from({ length: 40 }, (_, n) => [n, `k${n}`] as const),
    )
    const both = deferred<void>()
    const members = [sluice, startTestSluice(database)].map((member) => {
      const seen: unknown[] = []
      const pipeline = member.pipeline(stream, { group: 'all', batchSize: 2 }).handle(async ({ payload }) => {
        seen.push(payload)
        if (members.every((one) => one.seen.length > 0)) both.resolve()
        await both.promise
      })
      return { seen, pipeline }
    })
    await Promise.all(members.map(({ pipeline }) => pipeline.runOnce()))
    await Promise.all(members.map(({ pipeline }) => pipeline.runOnce()))
    const seen = members.flatMap((member) => member.seen)
    expect(seen).toHaveLength(40)
    expect(new Set(seen).size).toBe(40)
  })

  test('lets a partition wait when as many are deferred as it may have, and the others go on', async ({
    database,
    sluice,
    stream,
  }) => {
    await database.sql('UPDATE sluice.stream_group SET defer_limit = 2 WHERE stream = $1', [stream])
    const pipeline = sluice.pipeline(stream, { group: 'all', retry: RETRY }).handle(({ payload }) => {
      if (payload === 0) raise('no')
    })
    await append(database, stream, [
      [0, 'a'],
      [1, 'a'],
    ])
    await pipeline.runOnce()
    await append(database, stream, [
      [2, 'a'],
      [3, 'a'],
    ])
    const others = Array.from({ length: 20 }, (_, n) => [4, `b${n}`] as const)
    await append(database, stream, others)
    await pipeline.runOnce()
    await pipeline.runOnce()
    expect(
      await database.sql('SELECT payload FROM sluice.message WHERE queue = $1 ORDER BY id', [`${stream}:all`]),
    ).toEqual([{ payload: 0 }, { payload: 1 }])
    await database.sql(
      'UPDATE sluice.message SET due_at = clock_timestamp(), payload = $1 WHERE attempt = 1 AND queue = $2',
      [9, `${stream}:all`],
    )
    await pipeline.runOnce()
    await pipeline.runOnce()
    expect(await database.sql('SELECT FROM sluice.message WHERE queue = $1', [`${stream}:all`])).toEqual([])
  })

  test.for([
    ['of another key', (n: number): readonly [number, string?] => [n, `k${n}`]],
    ['without a key', (n: number): readonly [number, string?] => [n]],
  ] as const)(
    'defers no more than it may when every event %s fails, and loses none',
    async ([, eventOf], { database, sluice, stream }) => {
      await database.sql('UPDATE sluice.stream_group SET defer_limit = 2 WHERE stream = $1', [stream])
      let fails = true
      const seen: unknown[] = []
      const pipeline = sluice.pipeline(stream, { group: 'all', batchSize: 1, retry: RETRY }).handle(({ payload }) => {
        if (fails) raise('no')
        seen.push(payload)
      })
      const events = Array.from({ length: 40 }, (_, n) => eventOf(n))
      await append(database, stream, events)
      await pipeline.runOnce()
      const waiting = () => database.sql('SELECT FROM sluice.message WHERE queue = $1', [`${stream}:all`])
      expect(await waiting()).toHaveLength(2)
      expect(await database.sql('SELECT FROM sluice.dead_letter WHERE queue = $1', [`${stream}:all`])).toEqual([])
      const held = 'SELECT FROM sluice.group_progress WHERE attempt = 1 AND held_until IS NOT NULL AND position < 100'
      expect((await database.sql(held)).length).toBeGreaterThan(0)
      fails = false
      await database.sql('UPDATE sluice.message SET due_at = clock_timestamp() WHERE queue = $1', [`${stream}:all`])
      await database.sql('UPDATE sluice.group_progress SET held_until = clock_timestamp() WHERE held_until IS NOT NULL')
      await pipeline.runOnce()
      expect(seen.toSorted((a, b) => Number(a) - Number(b))).toEqual(events.map(([payload]) => payload))
    },
  )

  test('goes on behind partitions that wait, however much is in them', async ({ database, sluice, stream }) => {
    await database.sql('UPDATE sluice.stream_group SET defer_limit = 1 WHERE stream = $1', [stream])
    const seen: unknown[] = []
    const pipeline = sluice
      .pipeline(stream, { group: 'all', batchSize: 2, retry: RETRY })
      .handle(({ orderingKey, payload }) => (payload === 0 ? raise('no') : void seen.push(orderingKey)))
    const inPartition = await keysByPartition(database, ['a', ...Array.from({ length: 20 }, (_, n) => `b${n}`)])
    const waiting = inPartition.find((keys) => keys.includes('a'))
    await append(database, stream, [[0, 'a']])
    await pipeline.runOnce()
    const behind = Array.from({ length: 4 }, (_, n) => [n + 1, 'a'] as const)
    const others = inPartition.flatMap((keys) => (keys === waiting ? [] : keys))
    await append(database, stream, [...behind, ...others.map((key) => [9, key] as const)])
    await pipeline.runOnce()
    expect(seen.toSorted()).toEqual(others.toSorted())
  })

  test('tries a partition again that had to wait, if all that it tries before it have to wait', async ({
    database,
    stream,
  }) => {
    await database.sql('UPDATE sluice.stream_group SET defer_limit = 1 WHERE stream = $1', [stream])
    const inPartition = await keysByPartition(
      database,
      Array.from({ length: 40 }, (_, n) => `k${n}`),
    )
    const [busy = '', freed = ''] = [inPartition[1]?.[0], inPartition[3]?.[0]]
    const queue = `${stream}:all`
    // Two events before them have failed.
    await database.sql(
      `INSERT INTO sluice.message (queue, payload, ordering_key, event_position)
       SELECT $1, '0', key, n FROM unnest($2::text[]) WITH ORDINALITY AS failed (key, n)`,
      [queue, [busy, freed]],
    )
    await database.sql('SELECT sluice_private.note_queued(id) FROM sluice.stream_group WHERE stream = $1', [stream])
    await append(database, stream, [
      [1, busy],
      [2, freed],
    ])
    const client = await database.pool.connect()
    try {
      const execute: Execute = async ({ text }, values) => (await client.query(text, [...values])).rows
      const group = await readGroup(execute, stream, 'all')
      // It begins with partition 0, and with the next one at each claim.
      const options = { queue, stream, name: 'all', group, limit: 1, random: () => 0, onQueued: () => undefined }
      const claimer = new EventClaimer(options)
      const claim = async () => {
        await client.query('BEGIN')
        const { rows } = await claimer.claim({ execute })
        await client.query('ROLLBACK')
        return rows.map(({ payload }) => payload)
      }
      expect(await claim()).toEqual([])
      await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND ordering_key = $2', [queue, freed])
      expect(await claim()).toEqual(['2'])
    } finally {
      client.release()
    }
  })

  test('looks for what was appended meanwhile, if others have taken all that it knew of', async ({
    database,
    sluice,
    stream,
  }) => {
    const [mine = [], others = []] = await keysByPartition(database, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'])
    const [first = '', other = ''] = [mine[0], others[0]]
    const seen: unknown[] = []
    const another = startTestSluice(database)
      .pipeline(stream, { group: 'all' })
      .handle(() => undefined)
    const pipeline = sluice.pipeline(stream, { group: 'all', batchSize: 1 }).handle(async ({ payload }) => {
      seen.push(payload)
      if (payload !== 1) return
      await append(database, stream, [[2, other]])
      await another.runOnce()
      await append(database, stream, [[3, other]])
    })
    await append(database, stream, [[1, first]])
    await pipeline.runOnce()
    expect(seen).toEqual([1, 3])
  })

  test('is paused with its queue, and goes on where it was', async ({ database, sluice, stream }) => {
    await append(database, stream, [[1]])
    await sluice.operate.queues.pause(`${stream}:all`)
    const run = () =>
      startTestSluice(database)
        .pipeline(stream, { group: 'all' })
        .handle(() => undefined)
        .runOnce()
    expect((await run()).counts.acked).toBe(0)
    await sluice.operate.queues.resume(`${stream}:all`)
    expect((await run()).counts.acked).toBe(1)
  })

  test('that does not exist, or a stream that does not, is an error that says how to make it', async ({
    sluice,
    stream,
  }) => {
    const consume = (name: string, group: string) =>
      sluice
        .pipeline(name, { group })
        .handle(() => undefined)
        .runOnce()
    await expect(consume(stream, 'none')).rejects.toMatchObject({ code: 'GROUP_UNKNOWN' })
    await expect(consume('nowhere', 'none')).rejects.toMatchObject({ code: 'STREAM_UNKNOWN' })
  })

  test('that has lost events stands still and says which, until it is moved', async ({ database, sluice, stream }) => {
    const [, second] = await append(database, stream, [[1], [2], [3]])
    await sluice.operate.streams.trim(stream, { position: Number(second) }, { force: true })
    const pipeline = sluice.pipeline(stream, { group: 'all' }).handle(() => undefined)
    await expect(pipeline.runOnce()).rejects.toMatchObject({ code: 'GROUP_LOST_EVENTS' })
    await sluice.operate.groups.seek(stream, 'all', 'start')
    expect((await pipeline.runOnce()).counts.acked).toBe(2)
  })

  test('gives back what a stopped handler had in hand', async ({ database, sluice, stream }) => {
    await append(database, stream, [
      [1, 'a'],
      [2, 'a'],
    ])
    const begun = deferred<void>()
    const running = sluice
      .pipeline(stream, { group: 'all' })
      .handle(async (_, { signal }) => {
        begun.resolve()
        await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      })
      .start()
    await begun.promise
    await running.stop()
    expect(await database.sql('SELECT FROM sluice.message WHERE queue = $1', [`${stream}:all`])).toEqual([])
    const pipeline = sluice.pipeline(stream, { group: 'all' }).handle(() => undefined)
    expect((await pipeline.runOnce()).counts.acked).toBe(2)
  })
})

/** Ordering keys, by their partitions in a stream of four. */
async function keysByPartition(
  database: TestDatabase,
  keys: readonly string[],
): Promise<readonly (readonly string[])[]> {
  const rows = await database.sql<{ keys: string[] }>(
    `SELECT array_agg(key) AS keys FROM unnest($1::text[]) AS key GROUP BY sluice_private.event_partition(key, 4::smallint)
     ORDER BY sluice_private.event_partition(key, 4::smallint)`,
    [keys],
  )
  return rows.map((row) => row.keys)
}
