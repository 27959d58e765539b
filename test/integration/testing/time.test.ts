import { readFileSync } from 'node:fs'
import { describe, expect, onTestFinished } from 'vitest'
import { ack, createSluice, snooze } from '../../../src/index.ts'
import { advance, runDue } from '../../../src/testing.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { append, test as withStream } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

/** A Sluice with a Sluice of its own time: no test moves the time of another. */
const test = base.extend(
  'pass',
  ({ sluice, queue }) =>
    (time: string) =>
      advance(sluice, time as '1m', { queue }),
)

const HOURLY = { retry: { kind: 'fixed', delay: '1h' } } as const

describe('advance', () => {
  test('makes delayed messages due, in the order of their due times', async ({ sluice, queue, pass }) => {
    const seen: unknown[] = []
    const pipeline = sluice.pipeline(queue).handle(({ payload }) => void seen.push(payload))
    await put(sluice, queue, ['second'], { delay: '50m' })
    await put(sluice, queue, ['first'], { delay: '40m' })
    await put(sluice, queue, ['later'], { dueAt: new Date(Date.now() + 2 * 3_600_000) })
    await pass('39m')
    expect(await runDue(pipeline)).toEqual([])
    await pass('20m')
    await runDue(pipeline)
    expect(seen).toEqual(['first', 'second'])
    await pass('62m')
    await runDue(pipeline)
    expect(seen).toEqual(['first', 'second', 'later'])
  })

  test('names the queue that was meant by one that there is not, and takes one of which nothing is left', async ({
    database,
    sluice,
    queue,
    pass,
  }) => {
    await put(sluice, queue, [1])
    await expect(advance(sluice, '1m', { queue: `${queue}x` })).rejects.toMatchObject({
      code: 'QUEUE_UNKNOWN',
      message: expect.stringMatching(/^advance\.queue: expected a queue that there is, received .*Did you mean "/),
    })
    await runDue(sluice.pipeline(queue).handle(() => undefined))
    await pass('1m')
    const received = `${queue}.in`
    await database.sql("SELECT sluice.received($1, 'stripe', 'evt_1')", [received])
    await advance(sluice, '8d', { queue: received })
  })

  test('brings the next attempt of what has failed, and the end of a snooze, with the keys that they hold', async ({
    sluice,
    queue,
    pass,
  }) => {
    const seen: string[] = []
    const pipeline = sluice.pipeline(queue, HOURLY).handle(({ payload, attempt }) => {
      seen.push(`${payload} ${attempt}`)
      if (payload === 'fails' && attempt === 1) raise()
      return payload === 'snoozes' && seen.length < 4 ? snooze({ after: '1h' }) : ack()
    })
    await put(sluice, queue, ['fails', 'behind'], { orderingKey: 'a' })
    await put(sluice, queue, ['snoozes'], { orderingKey: 'b' })
    await runDue(pipeline)
    expect(seen.toSorted()).toEqual(['fails 1', 'snoozes 1'])
    await pass('59m')
    expect(await runDue(pipeline)).toEqual([])
    await pass('1m')
    await runDue(pipeline)
    expect(seen.slice(2).toSorted()).toEqual(['behind 1', 'fails 2', 'snoozes 1'])
    expect(seen.indexOf('fails 2')).toBeLessThan(seen.indexOf('behind 1'))
  })

  test('lets a running pipeline find what is due', async ({ database, sluice, queue, pass }) => {
    const running = sluice
      .pipeline(queue, HOURLY)
      .handle(({ attempt }) => (attempt === 1 ? raise() : undefined))
      .start()
    await put(sluice, queue, ['plain'])
    await put(sluice, queue, ['keyed'], { orderingKey: 'a' })
    const retrying = () =>
      database.sql('SELECT FROM sluice.message WHERE queue = $1 AND attempt = 1 FOR UPDATE SKIP LOCKED', [queue])
    await waitFor(async () => (await retrying()).length === 2, { what: 'the first attempts' })
    await pass('1h')
    await waitFor(() => running.statistics().acked === 2, { what: 'the second attempts' })
  })

  test('ends a lease: another pipeline gets the message, and its holder loses it', async ({
    database,
    sluice,
    queue,
    pass,
  }) => {
    const other = startTestSluice(database)
    const lost = Promise.withResolvers<unknown>()
    const begun = Promise.withResolvers<void>()
    const options = { mode: 'leased', lease: '6h', timeout: '12h', retry: { kind: 'fixed', delay: 0 } } as const
    // Without room for a second message, which would be this one again.
    const holder = other.pipeline(queue, { ...options, concurrency: 1 }).handle(async (_, { transaction }) => {
      begun.resolve()
      await taken.promise
      lost.resolve(await transaction(() => undefined).catch((error: unknown) => error))
    })
    const taken = Promise.withResolvers<void>()
    const pipeline = sluice.pipeline(queue, options).handle(() => taken.resolve())
    await put(sluice, queue, ['a'])
    const running = holder.start()
    await begun.promise
    expect(await runDue(pipeline)).toEqual([])
    await pass('6h')
    const second = pipeline.start()
    expect(await lost.promise).toMatchObject({ code: 'LEASE_LOST' })
    await Promise.all([running.drain(), second.drain()])
  })

  test('ends a claim, whose messages go to the next one', async ({ sluice, queue, pass }) => {
    await put(sluice, queue, ['a'])
    const first = await sluice.claim(queue, { lease: '1h' })
    expect(await sluice.claim(queue)).toBeUndefined()
    await pass('1h')
    const second = await sluice.claim(queue)
    expect(second?.messages.map(({ payload, attempt }) => [payload, attempt])).toEqual([['a', 2]])
    await expect(first?.renew()).rejects.toMatchObject({ code: 'CLAIM_OVER' })
  })

  test('lets messages expire', async ({ sluice, queue, pass }) => {
    await put(sluice, queue, ['a'], { ttl: '1h' })
    await put(sluice, queue, ['b'], { ttl: '3h', delay: '1h' })
    const pipeline = sluice.pipeline(queue).handle(() => undefined)
    await pass('2h')
    expect((await runDue(pipeline)).map(({ message }) => message.payload)).toEqual(['b'])
  })

  test('frees dedupe keys that are kept, and those of throttle', async ({ sluice, queue, pass }) => {
    const enqueue = async (dedupe: object) => {
      const options = { dedupe: { key: 'K', for: '1h', ...dedupe } as const }
      return (await sluice.enqueue(sluice.ownTransaction, queue, 1, options)).outcome
    }
    const pipeline = sluice.pipeline(queue).handle(() => undefined)
    for (const dedupe of [{}, { key: 'T', onDuplicate: 'throttle' }]) {
      expect(await enqueue(dedupe)).toBe('added')
      await runDue(pipeline)
      expect(await enqueue(dedupe)).toBe('duplicate')
      await pass('59m')
      expect(await enqueue(dedupe)).toBe('duplicate')
      await pass('1m')
      expect(await enqueue(dedupe)).toBe('added')
      await runDue(pipeline)
    }
  })

  test('refills a rate', async ({ sluice, queue, pass }) => {
    await sluice.operate.queues.settings.set(queue, { rate: { limit: 2, per: '1h', burst: 2 } })
    await put(sluice, queue, [1, 2, 3, 4])
    const pipeline = sluice.pipeline(queue).handle(() => undefined)
    expect((await runDue(pipeline)).counts.acked).toBe(2)
    expect((await runDue(pipeline)).counts.acked).toBe(0)
    await pass('1h')
    expect((await runDue(pipeline)).counts.acked).toBe(2)
  })

  test('makes schedules due once, also over several steps', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { pollInterval: '100ms' })
    const enqueued = async () =>
      (
        await database.sql<{ n: number }>('SELECT count(*)::integer AS n FROM sluice.message WHERE queue = $1', [queue])
      )[0]?.n
    // The first day of the month in half a year.
    const month = ((new Date().getUTCMonth() + 6) % 12) + 1
    await sluice.schedules.set(queue, { cron: `0 0 1 ${month} *`, queue, payload: {} })
    await sluice.start()
    await waitFor(async () => (await sluice.operate.schedules.get(queue))?.nextAt instanceof Date, { what: 'its plan' })
    for (const days of [1, 2]) {
      await advance(sluice, `${days}d`, { queue })
      expect(await enqueued()).toBe(0)
    }
    await advance(sluice, '363d', { queue })
    await waitFor(async () => (await enqueued()) === 1, { what: 'its message' })
    await advance(sluice, '1d', { queue })
    expect(await enqueued()).toBe(1)
  })

  test('ages dead letters, history and receipts, which maintenance removes then', async ({
    database,
    sluice,
    queue,
  }) => {
    await sluice.operate.queues.settings.set(queue, { history: '2d', deadLetterRetention: '2d' })
    await put(sluice, queue, ['good', 'bad'])
    const pipeline = sluice.pipeline(queue, { maxAttempts: 1 }).handle(({ payload }) => {
      if (payload === 'bad') raise()
    })
    await runDue(pipeline)
    await database.sql(`SELECT sluice.received($1, 'shop', '1')`, [queue])
    const left = async () => {
      await sluice.operate.maintain()
      const tables = ['dead_letter', 'completed_message', 'receipt']
      const counts = tables.map(
        (table) => `(SELECT count(*) FROM sluice.${table} WHERE queue = $1)::integer AS ${table}`,
      )
      return (await database.sql(`SELECT ${counts.join(', ')}`, [queue]))[0]
    }
    await advance(sluice, '1d', { queue })
    expect(await left()).toEqual({ dead_letter: 1, completed_message: 1, receipt: 1 })
    await advance(sluice, '2d', { queue })
    expect(await left()).toEqual({ dead_letter: 0, completed_message: 0, receipt: 1 })
    await advance(sluice, '400d', { queue })
    expect(await left()).toEqual({ dead_letter: 0, completed_message: 0, receipt: 0 })
  })

  test('leaves what a transaction has locked as it is, and does not wait for it', async ({
    database,
    sluice,
    queue,
    pass,
  }) => {
    const dueAts: unknown[] = []
    const pipeline = sluice.pipeline(queue).handle(async ({ id }) => {
      const dueAt = async () => (await database.sql('SELECT due_at FROM sluice.message WHERE id = $1', [id]))[0]?.due_at
      dueAts.push(await dueAt())
      await pass('1h')
      dueAts.push(await dueAt())
    })
    await put(sluice, queue, ['a'])
    expect((await runDue(pipeline)).counts.acked).toBe(1)
    expect(dueAts[0]).toBeInstanceOf(Date)
    expect(dueAts[1]).toEqual(dueAts[0])
  })

  test('moves one queue, or all', async ({ sluice, queue, pass }) => {
    const names = [queue, `${queue}.other`]
    for (const name of names) await put(sluice, name, ['a'], { delay: '1h' })
    const pipelines = names.map((name) => sluice.pipeline(name).handle(() => undefined))
    await pass('1h')
    expect((await runDue(pipelines)).map(({ message }) => message.queue)).toEqual([queue])
    await advance(sluice, '1h')
    expect((await runDue(pipelines)).map(({ message }) => message.queue)).toEqual([`${queue}.other`])
  })

  test('refuses a time that is none, and options that do not exist', async ({ sluice, queue }) => {
    await expect(advance(sluice, 'soon' as '1m')).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(advance(sluice, -1)).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(advance(sluice, '1m', { queues: [queue] } as object)).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(advance({} as typeof sluice, '1m')).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    const typed = createSluice({ connection: 'postgres://localhost/none', queues: { emails: {} } })
    onTestFinished(() => typed.stop())
    await expect(advance(typed, '1m', { queue: 'emials' as 'emails' })).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' })
  })
})

describe('advance, for a group', () => {
  withStream.for(['defer', 'stop'] as const)(
    'brings the next attempt of an event, on failure %s',
    async (onFailure, { database, sluice, stream }) => {
      await sluice.groups.set(stream, 'g', { from: 'start', onFailure })
      const attempts: number[] = []
      const pipeline = sluice.pipeline(stream, { group: 'g', ...HOURLY }).handle(({ attempt }) => {
        attempts.push(attempt)
        if (attempt === 1) raise()
      })
      await append(database, stream, [['a', 'key']])
      await runDue(pipeline)
      await runDue(pipeline)
      expect(attempts).toEqual([1])
      await advance(sluice, '1h', { queue: `${stream}:g` })
      await runDue(pipeline)
      expect(attempts).toEqual([1, 2])
    },
  )

  withStream('takes its name where queues and streams are defined', async ({ database, stream }) => {
    const typed = startTestSluice(database, { queues: { emails: {} }, streams: { [stream]: {} } })
    await typed.groups.set(stream, 'g', { from: 'start' })
    let attempts = 0
    const pipeline = typed.pipeline(stream, { group: 'g', ...HOURLY }).handle(() => {
      attempts += 1
      if (attempts === 1) raise()
    })
    await append(database, stream, [['a']])
    await runDue(pipeline)
    await advance(typed, '1h', { queue: `${stream}:g` })
    await runDue(pipeline)
    expect(attempts).toBe(2)
    await expect(advance(typed, '1h', { queue: 'none:g' })).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' })
  })
})

/** Instants that no test waits for: when something was changed, or what a worker says of itself. */
const LEFT = [
  ...['queue.paused_at', 'queue.changed_at', 'schedule.paused_at', 'schedule.last_at', 'schedule.last_enqueued_at'],
  ...['schedule.created_at', 'schedule.changed_at', 'endpoint.created_at', 'endpoint.changed_at', 'audit.at'],
  ...['worker.started_at', 'worker.seen_at', 'worker.server_started_at', 'worker_activity.at', 'backlog_sample.at'],
  ...[
    'batch_record.claimed_at',
    'crash.crashed_at',
    'cancel_request.asked_at',
    'turn.noted_at',
    'maintenance.begun_at',
  ],
  ...['stream.created_at', 'stream_group.created_at', 'segment.opened_at', 'segment.closed_at', 'segment.dropping_at'],
  ...['event.appended_at', 'id_mark.at'],
]

base('advance knows every instant of the tables', async ({ database }) => {
  const rows = await database.sql<{ name: string }>(
    `SELECT c.relname || '.' || a.attname AS name
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
     WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0
       AND NOT a.attisdropped AND coalesce(nullif(t.typbasetype, 0), t.oid) IN ('timestamptz'::regtype, 'timestamptz[]'::regtype)`,
  )
  const text = readFileSync(new URL('../../../src/table/testing/shift-times.ts', import.meta.url), 'utf8')
  const unknown = rows
    .map(({ name }) => name)
    .filter((name) => !LEFT.includes(name) && !/migration/.test(name))
    .filter((name) => !name.split('.').every((word) => text.includes(word)))
  expect(unknown).toEqual([])
})
