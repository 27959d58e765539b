import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import type { Message } from '../../../src/message.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

let names = 0
const test = base
  .extend('schedule', () => `s.${++names}`)
  .extend('sluice', ({ database }) => startTestSluice(database, { pollInterval: '100ms' }))

interface Enqueued {
  readonly id: string
  readonly headers: { readonly schedule?: string; readonly scheduledFor?: string }
}

describe('a schedule', () => {
  test('enqueues each occurrence in time, with its name and time in the headers', async ({
    database,
    sluice,
    queue,
    schedule: name,
    log,
  }) => {
    const handled: Message[] = []
    sluice
      .pipeline(queue)
      .handle((message) => void handled.push(message))
      .subscribe()
    const defined = await sluice.schedules.set(name, {
      cron: '* * * * * *',
      queue,
      payload: { at: 'once' },
      type: 'tick',
    })
    expect(defined.outcome).toBe('created')
    await waitFor(() => handled.length >= 2, { what: 'two occurrences' })
    await sluice.operate.schedules.delete(name)
    const [first, second] = handled
    expect(first).toMatchObject({ payload: { at: 'once' }, type: 'tick', headers: { schedule: name } })
    // On a busy machine a second may be over before its occurrence was enqueued: then it is skipped.
    expect(timeOf(second)).toBeGreaterThan(timeOf(first))
    expect([timeOf(first) % 1_000, timeOf(second) % 1_000]).toEqual([0, 0])
    const [event] = log.of('schedule.fired')
    expect(event).toMatchObject({ queue, schedule: name, id: first?.id, scheduledFor: new Date(timeOf(first)) })
    await waitFor(async () => (await enqueuedBy(database, queue)).length === 0, { what: 'the last one to be handled' })
  })

  test('that is defined again is left as it is; with other times its next occurrence is another', async ({
    sluice,
    queue,
    schedule: name,
  }) => {
    const daily = { cron: '0 3 * * *', zone: 'Europe/Berlin', queue, payload: 1, headers: { a: 1 } } as const
    const { nextAt } = await sluice.schedules.set(name, daily)
    const before = await sluice.operate.schedules.get(name)
    expect(before).toMatchObject({ name, queue, nextAt, payloadJson: '1', lastAt: null, enqueued: 0, missed: 'skip' })
    expect(await sluice.schedules.set(name, daily)).toEqual({ outcome: 'unchanged', nextAt })
    expect({ ...(await sluice.operate.schedules.get(name)), nextInMs: 0 }).toEqual({ ...before, nextInMs: 0 })
    expect(await sluice.schedules.set(name, { ...daily, payload: 2 })).toEqual({ outcome: 'changed', nextAt })
    const hourly = await sluice.schedules.set(name, { every: '1h', queue, payload: 2 })
    expect(hourly).toMatchObject({ outcome: 'changed' })
    expect(await sluice.operate.schedules.get(name)).toMatchObject({
      everyMs: 3_600_000,
      cron: null,
      nextAt: hourly.nextAt,
    })
  })

  test('that many processes define at once is created once', async ({ database, queue, schedule: name }) => {
    const processes = Array.from({ length: 8 }, () => startTestSluice(database))
    const defined = await Promise.all(
      processes.map((sluice) => sluice.schedules.set(name, { every: '1d', queue, payload: null })),
    )
    const outcomes = defined.map(({ outcome }) => outcome).toSorted()
    expect(outcomes).toEqual(['created', ...Array.from({ length: 7 }, () => 'unchanged')])
  })

  test('of eight processes: each occurrence is enqueued by one of them', async ({
    database,
    queue,
    schedule: name,
  }) => {
    const processes = Array.from({ length: 8 }, () => startTestSluice(database))
    await Promise.all(processes.map((sluice) => sluice.start()))
    await processes[0]?.schedules.set(name, { every: '1s', queue, payload: {} })
    await waitFor(async () => (await enqueuedBy(database, queue)).length >= 2, { what: 'two occurrences' })
    await processes[0]?.operate.schedules.delete(name)
    const times = (await enqueuedBy(database, queue)).map(({ headers }) => Date.parse(headers.scheduledFor ?? ''))
    expect(times).toEqual(times.map((_, at) => times[0]! + at * 1_000))
  })

  test('gives the settings of its queue: a delay and a time to live', async ({
    database,
    sluice,
    queue,
    schedule: name,
  }) => {
    await database.sql('INSERT INTO sluice.queue (queue, delay_ms, ttl_ms) VALUES ($1, 60000, 60000)', [queue])
    await sluice.schedules.set(name, { every: '1d', queue, payload: {} })
    await sluice.operate.schedules.runNow(name)
    const [row] = await database.sql(
      `SELECT m.due_at > m.enqueued_at + interval '59 s' AS delayed, m.expires_at = m.due_at + interval '60 s' AS expires
       FROM sluice.message m WHERE m.queue = $1`,
      [queue],
    )
    expect(row).toEqual({ delayed: true, expires: true })
  })
})

describe('occurrences that nobody has enqueued in time', () => {
  test('are skipped, and reported', async ({ sluice, database, queue, schedule: name, log }) => {
    await sluice.schedules.set(name, { every: '1d', queue, payload: {}, grace: '1s' })
    await setBack(database, name, 5)
    await sluice.start()
    expect(await log.first('schedule.missed')).toMatchObject({ schedule: name, occurrences: 5, reason: 'late' })
    expect(await sluice.operate.schedules.get(name)).toMatchObject({ enqueued: 0, skipped: 5 })
    expect(await enqueuedBy(database, queue)).toEqual([])
  })

  test('are made up for by the last one', async ({ sluice, database, queue, schedule: name, log }) => {
    await sluice.schedules.set(name, { every: '1d', queue, payload: {}, grace: '1s', missed: 'last' })
    await setBack(database, name, 5)
    await sluice.start()
    expect(await log.first('schedule.missed')).toMatchObject({ occurrences: 4 })
    expect(await daysOf({ sluice, database, queue, name })).toEqual([1])
  })

  test('are all made up for, within the bounds', async ({ sluice, database, queue, schedule: name, log }) => {
    await sluice.schedules.set(name, {
      cron: '0 0 * * *',
      queue,
      payload: {},
      grace: '1s',
      missed: 'all',
      catchUp: { most: 3 },
    })
    await setBack(database, name, 5)
    await sluice.start()
    expect(await log.first('schedule.missed')).toMatchObject({ occurrences: 2 })
    expect(await daysOf({ sluice, database, queue, name })).toEqual([3, 2, 1])
  })

  test('cost no more than the bound after a year of a schedule for every second', async ({
    sluice,
    queue,
    schedule: name,
    database,
    log,
  }) => {
    await sluice.schedules.set(name, { cron: '* * * * * *', queue, payload: {}, missed: 'all', grace: '1s' })
    await setBack(database, name, 366)
    await sluice.start()
    await log.first('schedule.missed')
    await sluice.operate.schedules.delete(name)
    expect((await enqueuedBy(database, queue)).length).toBeLessThan(110)
  })

  test('are enqueued all the same within the grace, also more than a thousand', async ({
    sluice,
    queue,
    schedule: name,
    database,
  }) => {
    await sluice.schedules.set(name, { every: '1s', queue, payload: {}, grace: '1h' })
    await database.sql(
      `UPDATE sluice.schedule SET next_at = date_trunc('second', clock_timestamp()) - interval '1200 s' WHERE name = $1`,
      [name],
    )
    await sluice.start()
    await waitFor(async () => ((await sluice.operate.schedules.get(name))?.enqueued ?? 0) > 1_200, {
      what: 'all of them',
    })
    await sluice.operate.schedules.pause(name)
    const times = (await enqueuedBy(database, queue)).map(({ headers }) => Date.parse(headers.scheduledFor ?? ''))
    expect(times).toEqual(times.map((_, at) => (times[0] ?? 0) + at * 1_000))
    expect(await sluice.operate.schedules.get(name)).toMatchObject({ enqueued: times.length, skipped: 0 })
  })

  async function setBack(database: TestDatabase, name: string, days: number): Promise<void> {
    await database.sql(`UPDATE sluice.schedule SET next_at = next_at - interval '1 d' * $2::integer WHERE name = $1`, [
      name,
      days,
    ])
  }

  /** How many days before the next occurrence those were that were enqueued. */
  async function daysOf({ database, sluice, queue, name }: Context): Promise<readonly number[]> {
    const next = (await sluice.operate.schedules.get(name))?.nextAt?.getTime() ?? 0
    return (await enqueuedBy(database, queue)).map(
      ({ headers }) => (next - Date.parse(headers.scheduledFor ?? '')) / 86_400_000,
    )
  }
})

describe('a schedule that must not overlap', () => {
  test('enqueues nothing while its last message is in hand, in either mode, and goes on then', async ({
    sluice,
    database,
    queue,
    schedule: name,
    log,
  }) => {
    for (const mode of ['transactional', 'leased'] as const) {
      const [begun, end] = [deferred(), deferred()]
      const [own, at] = [`${name}.${mode}`, `${queue}.${mode}`]
      await sluice.schedules.set(own, { every: '1d', queue: at, payload: {}, overlap: false })
      const pipeline = sluice.pipeline(at, { mode } as { mode: 'leased' }).handle(async () => {
        begun.resolve()
        await end.promise
      })
      pipeline.subscribe()
      await makeDue(database, own)
      await begun.promise
      await makeDue(database, own)
      const missed = await log.first('schedule.missed', ({ schedule }) => schedule === own)
      expect(missed).toMatchObject({ occurrences: 1, reason: 'overlap' })
      expect(await sluice.operate.schedules.runNow(own)).toBeUndefined()
      end.resolve()
      await waitFor(async () => (await enqueuedBy(database, at)).length === 0, { what: 'the message to be handled' })
      await makeDue(database, own)
      const fired = () => log.of('schedule.fired').filter(({ schedule }) => schedule === own)
      await waitFor(() => fired().length === 2, { what: 'the next one' })
    }
  })
})

describe('a schedule that must not overlap, whose last message has expired', () => {
  test('goes on before somebody has removed that, unless it is in hand', async ({ sluice, queue, schedule: name }) => {
    const { schedules } = sluice.operate
    await sluice.schedules.set(name, { every: '1d', queue, payload: {}, overlap: false, ttl: '1ms' })
    await schedules.runNow(name)
    const next = () => waitFor(() => schedules.runNow(name), { what: 'the last one to expire' })
    await next()
    await sluice.schedules.set(name, { every: '1d', queue: `${queue}.held`, payload: {}, overlap: false, ttl: '1m' })
    await schedules.runNow(name)
    const claim = await sluice.claim(`${queue}.held`)
    expect(await schedules.runNow(name)).toBeUndefined()
    await claim?.release()
  })
})

describe('a pause', () => {
  test('keeps occurrences back, for good, and outlasts a new definition', async ({
    sluice,
    database,
    queue,
    schedule: name,
    log,
  }) => {
    const definition = { every: '1d', queue, payload: {}, missed: 'all' } as const
    await sluice.schedules.set(name, definition)
    expect(await sluice.operate.schedules.pause(name, { reason: 'too slow', by: 'ada' })).toBe(true)
    expect(await sluice.operate.schedules.pause(name)).toBe(false)
    await sluice.schedules.set(name, { ...definition, payload: 1 })
    const paused = await sluice.operate.schedules.get(name)
    expect(paused).toMatchObject({ nextAt: null, paused: { by: 'ada', reason: 'too slow' } })
    await makeDue(database, name)
    const other = `${name}.other`
    await sluice.schedules.set(other, definition)
    await makeDue(database, other)
    await sluice.start()
    expect(await log.first('schedule.fired')).toMatchObject({ schedule: other })
    expect(await sluice.operate.schedules.resume(name)).toBe(true)
    expect(await sluice.operate.schedules.resume(name)).toBe(false)
    const isPlanned = async () => (await sluice.operate.schedules.get(name))?.nextAt
    const nextAt = await waitFor(isPlanned, { what: 'the next occurrence' })
    expect(nextAt.getTime()).toBeGreaterThan(Date.now())
    expect(log.of('schedule.fired')).toHaveLength(1)
  })
})

describe('a schedule that was resumed, or made in SQL, while no worker ran', () => {
  test.for(['made', 'resumed'] as const)(
    'makes up for what it has missed since it was %s',
    async (what, { sluice, database, queue, schedule: name }) => {
      await database.sql(`SELECT sluice.schedule($1, $2, '{}', every => '1 day', missed => 'all')`, [name, queue])
      if (what === 'resumed') {
        await sluice.operate.schedules.pause(name)
        await sluice.operate.schedules.resume(name)
      }
      // As if that had been two days ago.
      await database.sql(`UPDATE sluice.schedule SET next_at = next_at - interval '48 hours' WHERE name = $1`, [name])
      await sluice.start()
      await waitFor(async () => (await enqueuedBy(database, queue)).length === 2, { what: 'two occurrences' })
    },
  )
})

describe('run now', () => {
  test('enqueues one message beside the times, also of a paused schedule, in a transaction of yours', async ({
    sluice,
    database,
    queue,
    schedule: name,
  }) => {
    await sluice.schedules.set(name, { cron: '0 3 * * *', queue, payload: { n: 1 }, headers: { trace: 'x' } })
    const before = await sluice.operate.schedules.get(name)
    const id = await sluice.operate.schedules.runNow(name)
    await sluice.operate.schedules.pause(name)
    await sluice.operate.schedules.runNow(name)
    const [first, ...more] = await enqueuedBy(database, queue)
    expect(first).toMatchObject({
      id,
      headers: { schedule: name, trace: 'x', scheduledFor: expect.stringMatching(/Z$/) },
    })
    expect(more).toHaveLength(1)
    await sluice.operate.schedules.resume(name)
    const after = await sluice.operate.schedules.get(name)
    expect(after?.enqueued).toBe(2)
    expect(before?.nextAt).not.toBeNull()
  })
})

describe('a schedule that is made in SQL', () => {
  test('gets its next occurrence from the next worker that looks', async ({
    sluice,
    database,
    queue,
    schedule: name,
  }) => {
    const define = 'SELECT sluice.schedule($1, $2, $3, cron => $4, zone => $5) AS outcome'
    expect(await database.sql(define, [name, queue, '{}', '0 3 * * *', 'Asia/Tokyo'])).toEqual([{ outcome: 'created' }])
    expect(await sluice.operate.schedules.get(name)).toMatchObject({ nextAt: null })
    await sluice.start()
    const status = await waitFor(
      async () => {
        const found = await sluice.operate.schedules.get(name)
        return found?.nextAt && found
      },
      { what: 'the next occurrence' },
    )
    expect(status.nextAt?.getUTCHours()).toBe(18)
    expect(await sluice.operate.schedules.next(name, 3)).toEqual(
      [0, 1, 2].map((days) => new Date((status.nextAt?.getTime() ?? 0) + days * 86_400_000)),
    )
    expect(await database.sql(define, [name, queue, '{}', '0 3 * * *', 'Asia/Tokyo'])).toEqual([
      { outcome: 'unchanged' },
    ])
  })

  test('with times that nobody can compute says so, and disturbs no other', async ({
    sluice,
    database,
    queue,
    schedule: name,
    log,
  }) => {
    await database.sql(`SELECT sluice.schedule($1, $2, '{}', cron => '0 0 * * *', zone => 'Mars/Phobos')`, [
      name,
      queue,
    ])
    await database.sql(`SELECT sluice.schedule($1, $2, '{}', cron => 'whenever')`, [`${name}.b`, queue])
    await sluice.schedules.set(`${name}.c`, { every: '1d', queue, payload: {} })
    await makeDue(database, `${name}.c`)
    await sluice.start()
    await waitFor(async () => (await enqueuedBy(database, queue)).length > 0, { what: 'the good one' })
    const failed = await log.first('schedule.failed', ({ schedule }) => schedule === name)
    expect(failed.error.message).toContain('Mars/Phobos')
    expect(await sluice.operate.schedules.get(name)).toMatchObject({
      nextAt: null,
      error: expect.stringContaining('Mars/Phobos'),
    })
    const bad = await log.first('schedule.failed', ({ schedule }) => schedule === `${name}.b`)
    const says = `schedule.cron: expected a cron expression, received "whenever": invalid configuration format`
    expect(bad.error.message).toContain(says)
    const again = `Define it again: npx sluice schedule set ${name}.b ${queue} --cron '0 3 * * *', or in SQL sluice.schedule(`
    expect(bad.error.message).toContain(again)
    await waitFor(async () => (await sluice.operate.schedules.get(`${name}.b`))?.error, { what: 'the stored error' })
    expect((await sluice.operate.schedules.explain(`${name}.b`)).headline).toMatchObject({
      explanation: expect.stringContaining(says),
      remedy: `npx sluice schedule get ${name}.b # and define it again as the error says`,
    })
    expect((await sluice.operate.doctor()).find(({ subject }) => subject === `schedule ${name}.b`)).toMatchObject({
      finding: expect.stringContaining(again),
      remedy: `npx sluice schedule get ${name}.b # and define it again as the error says`,
    })
    await expect(sluice.operate.schedules.next(`${name}.b`)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: bad.error.message,
    })
    // Corrected, it is planned at once.
    await database.sql(`SELECT sluice.schedule($1, $2, '{}', cron => '0 0 * * *')`, [name, queue])
    await waitFor(async () => (await sluice.operate.schedules.get(name))?.nextAt, { what: 'the next occurrence' })
    expect(await sluice.operate.schedules.get(name)).toMatchObject({ error: null })
  })
})

test('a schedule whose queue refuses its payload fails alone, says why, and goes on when it is accepted', async ({
  sluice,
  database,
  queue,
  schedule: name,
  log,
}) => {
  await sluice.schedules.set(name, { every: '1d', queue, payload: { text: 'long enough' } })
  await makeDue(database, name)
  await database.sql('INSERT INTO sluice.queue (queue, payload_limit_bytes) VALUES ($1, 10)', [queue])
  await sluice.start()
  expect((await log.first('schedule.failed')).error.message).toContain('at most 10 bytes')
  await waitFor(async () => (await sluice.operate.schedules.get(name))?.error, { what: 'the error' })
  await database.sql('DELETE FROM sluice.queue WHERE queue = $1', [queue])
  await waitFor(async () => (await enqueuedBy(database, queue)).length > 0, { what: 'an occurrence' })
  expect(await sluice.operate.schedules.get(name)).toMatchObject({ error: null })
})

test('schedules that fail hold no later one up, however many they are', async ({
  sluice,
  database,
  queue,
  schedule: name,
}) => {
  await database.sql('INSERT INTO sluice.queue (queue, payload_limit_bytes) VALUES ($1, 10)', [`${queue}.small`])
  await database.sql(
    `INSERT INTO sluice.schedule (name, queue, every_ms, payload, next_at, planned)
     SELECT $1::text || '.' || i, $2, 86400000, '"long enough"', date_trunc('milliseconds', clock_timestamp()) - interval '1 s', true
     FROM generate_series(1, 101) i`,
    [name, `${queue}.small`],
  )
  await sluice.schedules.set(name, { every: '1d', queue, payload: {} })
  await makeDue(database, name)
  await sluice.start()
  await waitFor(async () => (await enqueuedBy(database, queue)).length > 0, { what: 'the one that does not fail' })
  await database.sql(`DELETE FROM sluice.schedule WHERE queue = $1`, [`${queue}.small`])
})

test('a frozen process that has read what is due enqueues nothing when it goes on after another', async ({
  database,
  queue,
  schedule: name,
}) => {
  const sluice = startTestSluice(database)
  await sluice.schedules.set(name, { every: '1h', queue, payload: {} })
  await database.sql(`UPDATE sluice.schedule SET next_at = date_trunc('hour', now()) WHERE name = $1`, [name])
  const fire = `SELECT f.id FROM sluice.schedule s CROSS JOIN LATERAL sluice_private.schedule_fire(
    s.name, s.revision, date_trunc('hour', now()), ARRAY[date_trunc('hour', now())], now() + interval '1 h', 0) f WHERE s.name = $1`
  expect(await database.sql(fire, [name])).toHaveLength(1)
  expect(await database.sql(fire, [name])).toEqual([])
  expect(await enqueuedBy(database, queue)).toHaveLength(1)
})

test('a schedule that is removed and defined anew is another one to a process that has read the old one', async ({
  sluice,
  database,
  queue,
  schedule: name,
}) => {
  const dueAt = `date_trunc('day', clock_timestamp())`
  const define = `SELECT sluice.schedule($1, $2, '{}', every => interval '1 day', next_at => ${dueAt})`
  const fire = `SELECT f.id FROM sluice_private.schedule_fire($1, $2, ${dueAt}, ARRAY[${dueAt}], ${dueAt} + interval '1 d', 0) f`
  const revision = async () => {
    const sql = 'SELECT s.revision FROM sluice.schedule s WHERE s.name = $1'
    return (await database.sql<{ revision: string }>(sql, [name]))[0]?.revision
  }
  await database.sql(define, [name, queue])
  const old = await revision()
  await sluice.operate.schedules.delete(name)
  await database.sql(define, [name, queue])
  expect(await database.sql(fire, [name, old])).toEqual([])
  expect(await database.sql(fire, [name, await revision()])).toHaveLength(1)
})

test('what is unknown, and what cannot be, is refused before anything is written', async ({
  sluice,
  database,
  queue,
  schedule: name,
}) => {
  const { schedules } = sluice.operate
  const calls = [
    () => schedules.pause(name),
    () => schedules.resume(name),
    () => schedules.runNow(name),
    () => schedules.next(name),
  ]
  for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'SCHEDULE_UNKNOWN' })
  expect(await schedules.get(name)).toBeUndefined()
  expect(await schedules.delete(name)).toBe(false)
  await put(sluice, queue, [1])
  const count = 'SELECT count(*) FROM sluice.schedule WHERE name = $1'
  await expect(sluice.schedules.set(name, { cron: '0 0 31 2 *', queue, payload: 1 })).rejects.toMatchObject({
    code: 'OPTION_INVALID',
  })
  expect(await database.sql(count, [name])).toEqual([{ count: '0' }])
})

test('what no message can be is refused in SQL too when it is defined', async ({ database, queue, schedule: name }) => {
  const define = (options: string) => database.sql(`SELECT sluice.schedule($1, $2, '{}', ${options})`, [name, queue])
  const both = "every => '1 day', tenant => 'acme', ordering_key => 'k'"
  const constraint = 'tenant: 1 to 255 bytes, without an ordering_key'
  await expect(define(both)).rejects.toMatchObject({ code: '23514', constraint })
  const soon = "every => '1 day', grace => '999 ms'"
  await expect(define(soon)).rejects.toMatchObject({ code: '23514', constraint: 'grace: 1 second to 1 hour' })
  const never = "every => '1 day', next_at => 'infinity'"
  const refused = 'next_at: expected an instant in the years 1970 to 9999, received infinity'
  await expect(define(never)).rejects.toMatchObject({ code: '22023', message: refused })
  const long = (option: string) =>
    define(`${option === 'every' ? '' : "every => '1 day', "}${option} => '170000000 years'`)
  for (const [option, wanted] of [
    ['every', 'every: 1 second to 366 days'],
    ['grace', 'grace: 1 second to 1 hour'],
    ['catch_up_within', 'catch_up_within: 1 minute to 366 days'],
    ['delay', 'delay: 0 to 100 years'],
    ['ttl', 'ttl: 1 ms to 100 years'],
    ['lease', 'lease: 1 second to 24 hours'],
  ] as const) {
    await expect(long(option), option).rejects.toMatchObject({ code: '23514', constraint: wanted })
  }
  expect(await database.sql('SELECT FROM sluice.schedule WHERE name = $1', [name])).toEqual([])
})

test('a schedule is defined and run in a transaction of the application', async ({
  sluice,
  database,
  queue,
  schedule: name,
}) => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('BEGIN')
  await sluice.schedules.set(name, { every: '1d', queue, payload: {} }, { tx: client })
  await sluice.operate.schedules.runNow(name, { tx: client })
  await client.query('ROLLBACK')
  expect(await sluice.operate.schedules.get(name)).toBeUndefined()
  expect(await enqueuedBy(database, queue)).toEqual([])
})

test('a schedule whose next occurrence is no instant of a calendar ends neither the poll nor other schedules', async ({
  sluice,
  database,
  queue,
  schedule: name,
}) => {
  const constraint = 'next_at: an instant in the years 1970 to 9999'
  const odd = `INSERT INTO sluice.schedule (name, queue, every_ms, payload, next_at, planned)
    VALUES ($1, $2, 86400000, '{}', $3, true)`
  await expect(database.sql(odd, [name, queue, '-infinity'])).rejects.toMatchObject({ code: '23514', constraint })
  // Rows that were there before the constraint.
  await database.sql(`ALTER TABLE sluice.schedule DROP CONSTRAINT "${constraint}"`)
  await database.sql(odd, [`${name}.a`, queue, '-infinity'])
  await database.sql(odd, [`${name}.b`, queue, '294276-01-01'])
  const alone = sluice.pipeline(`${queue}.delayed`).handle(() => undefined)
  alone.start()
  await sluice.enqueue(sluice.ownTransaction, `${queue}.delayed`, {}, { delay: '1s' })
  await waitFor(async () => (await enqueuedBy(database, `${queue}.delayed`)).length === 0, {
    what: 'a delayed message',
  })
  await sluice.schedules.set(name, { every: '1d', queue, payload: {} })
  await makeDue(database, name)
  await waitFor(async () => (await enqueuedBy(database, queue)).length > 0, { what: 'the other schedule' })
})

type Context = {
  readonly sluice: ReturnType<typeof startTestSluice>
  readonly database: TestDatabase
  readonly queue: string
  readonly name: string
}

/** As if an occurrence of a schedule had just come. */
async function makeDue(database: TestDatabase, name: string): Promise<void> {
  await database.sql(
    `UPDATE sluice.schedule SET next_at = date_trunc('milliseconds', clock_timestamp()) WHERE name = $1`,
    [name],
  )
}

function timeOf(message: Message | undefined): number {
  return Date.parse(String(message?.headers.scheduledFor))
}

function enqueuedBy(database: TestDatabase, queue: string): Promise<readonly Enqueued[]> {
  return database.sql<Enqueued>('SELECT m.id::text, m.headers FROM sluice.message m WHERE m.queue = $1 ORDER BY m.id', [
    queue,
  ])
}
