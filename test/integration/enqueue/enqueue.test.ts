import pg from 'pg'
import { describe, expect, vi } from 'vitest'
import * as z from 'zod'
import { type EnqueueContext, enqueueMany, enqueueOne, type MessageToEnqueue } from '../../../src/enqueue/enqueue.ts'
import { EXECUTE } from '../../../src/enqueue/own-symbols.ts'
import { ownTransaction } from '../../../src/enqueue/within.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { enqueueContext } from '../../support/enqueue-context.ts'
import { sleepOn } from '../../support/processes/sleeper.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { test as base } from '../../support/test.ts'

const context = enqueueContext()
let queues = 0

const test = base
  .extend('queue', () => `enqueue.${++queues}`)
  .extend('tx', async ({ database }, { onCleanup }) => {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    onCleanup(() => client.end())
    await client.query('BEGIN')
    return client
  })

describe('enqueue', () => {
  test('stores every option in its column', async ({ database, queue, tx }) => {
    const options = {
      type: 'order.paid',
      schemaVersion: 3,
      headers: { trace: 'a', nested: { n: 1 } },
      orderingKey: 'customer 7',
      priority: 2,
      dueAt: new Date('2031-02-03T04:05:06.789Z'),
      maxAttempts: 4,
    }
    const id = await enqueueOne(context, tx, queue, { total: 12.5 }, options)
    await tx.query('COMMIT')
    expect(await rowsOf(database, queue)).toEqual([
      {
        id,
        payload: { total: 12.5 },
        type: 'order.paid',
        schema_version: 3,
        headers: { trace: 'a', nested: { n: 1 } },
        ordering_key: 'customer 7',
        priority: 2,
        due_at: options.dueAt,
        max_attempts: 4,
        attempt: 0,
      },
    ])
  })

  test('takes the defaults of the table', async ({ database, queue, tx }) => {
    await enqueueOne(context, tx, queue, {})
    await tx.query(`INSERT INTO sluice.message (queue, payload) VALUES ($1, '{}')`, [queue])
    await tx.query('COMMIT')
    const [ours, theirs] = await rowsOf(database, queue)
    expect(ours).toEqual({ ...theirs, id: ours?.id, due_at: expect.any(Date) })
  })

  test('P1: a rolled-back enqueue is never seen', async ({ database, queue, tx }) => {
    await using sleeper = await sleepOn(database.url, queue)
    await enqueueMany(context, tx, queue, [{ payload: 1 }, { payload: 2 }])
    await tx.query('ROLLBACK')
    expect(await rowsOf(database, queue)).toEqual([])
    expect(await sleeper.notifications()).toEqual([])
  })

  test('an enqueue in a savepoint that is rolled back is never seen, its siblings are', async ({
    database,
    queue,
    tx,
  }) => {
    await enqueueOne(context, tx, queue, 'before')
    await tx.query('SAVEPOINT s')
    await enqueueOne(context, tx, queue, 'inside')
    await tx.query('ROLLBACK TO SAVEPOINT s')
    await enqueueOne(context, tx, queue, 'after')
    await tx.query('COMMIT')
    expect((await rowsOf(database, queue)).map(({ payload }) => payload)).toEqual(['before', 'after'])
  })

  test('sees to it that a BEGIN under way is waited for', async ({ database, queue }) => {
    const client = new pg.Client({ connectionString: database.url, pipeline: true } as pg.ClientConfig)
    await client.connect()
    const begin = client.query('BEGIN')
    await enqueueOne(context, client, queue, {})
    await begin
    await client.query('ROLLBACK')
    await client.end()
    expect(await rowsOf(database, queue)).toEqual([])
  })

  test('runs in the transaction of a batch', async ({ queue, tx, database }) => {
    const execute: Execute = async ({ text }, params) => (await tx.query(text, [...params])).rows
    const id = await enqueueOne(context, { [EXECUTE]: () => execute }, queue, {})
    await tx.query('COMMIT')
    expect(await rowsOf(database, queue)).toMatchObject([{ id }])
  })

  test('sluice.ownTransaction enqueues in a transaction of its own', async ({ database, queue }) => {
    const own = enqueueContext({ inOwnTransaction: (work) => inTransaction(database, work) })
    const id = await enqueueOne(own, ownTransaction, queue, 1)
    const ids = await enqueueMany(own, ownTransaction, queue, [{ payload: 2 }, { payload: 3 }])
    expect((await rowsOf(database, queue)).map((row) => row.id)).toEqual([id, ...ids])
  })

  test('rejects with what a transaction of its own rejects with', async ({ queue }) => {
    await expect(enqueueOne(context, ownTransaction, queue, 1)).rejects.toThrow(
      'no transaction of its own was asked for',
    )
  })

  test.for<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a string', 'emails'],
    ['an object', {}],
    ['a function', () => undefined],
    ['a query builder', { query() {}, transaction() {} }],
  ])('refuses %s as a transaction, saying what is accepted', async ([, tx], { queue }) => {
    await expect(enqueueOne(context, tx, queue, {})).rejects.toMatchObject({
      code: 'EXECUTOR_UNKNOWN',
      message: expect.stringMatching(
        /^tx: expected a pg Client.*, a Kysely .*, .*postgres\.js.*, .*Knex.*, .*Drizzle.*, .*TypeORM.*, .*Prisma.*, or the tx of a handler, received .+ownTransaction to enqueue in one of Sluice's own$/,
      ),
    })
  })

  test('says in which database the schema is missing, and what to do', async ({ queue }) => {
    await using empty = await createTestDatabase({ migrated: false })
    await expect(inTransaction(empty, (_, client) => enqueueOne(context, client, queue, {}))).rejects.toMatchObject({
      code: 'SCHEMA_MISSING',
      message: expect.stringMatching(
        /^Database "\w+" on [\w.]+, port \d+, as user "\w+", has no schema "sluice"\. Run `npx sluice migrate` for it/,
      ),
      cause: expect.objectContaining({ code: '3F000' }),
    })
  })

  test('leaves the error of a trigger that lacks a table of its own as it is', async ({ queue }) => {
    await using audited = await createTestDatabase()
    await audited.sql(`
      CREATE FUNCTION public.note_message() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN INSERT INTO public.missing_notes VALUES (NEW.id); RETURN NEW; END'`)
    await audited.sql(
      `CREATE TRIGGER note AFTER INSERT ON sluice.message FOR EACH ROW EXECUTE FUNCTION public.note_message()`,
    )
    await expect(inTransaction(audited, (_, client) => enqueueOne(context, client, queue, {}))).rejects.toMatchObject({
      code: '42P01',
      message: expect.stringContaining('missing_notes'),
    })
  })

  test('says that the schema is too old, and what to do', async ({ queue }) => {
    await using old = await createTestDatabase()
    await old.sql('DROP FUNCTION sluice_private.insert_plain')
    await expect(inTransaction(old, (_, client) => enqueueOne(context, client, queue, {}))).rejects.toMatchObject({
      code: 'SCHEMA_TOO_OLD',
      message: expect.stringMatching(/^Schema "sluice" is too old: .*insert_plain.*\. Run `npx sluice migrate`$/),
      cause: expect.objectContaining({ code: '42883' }),
    })
  })
})

describe('enqueueMany', () => {
  test('returns the ids in the order of the messages, and handles priorities and delays apart', async ({
    database,
    queue,
    tx,
  }) => {
    const messages = [
      { payload: 'a', priority: 9, delay: '1h' },
      { payload: 'b', priority: 0 },
      { payload: 'c', orderingKey: 'k' },
    ] as const
    const ids = await enqueueMany(context, tx, queue, messages)
    await tx.query('COMMIT')
    const rows = await rowsOf(database, queue)
    expect(rows.map(({ id }) => id)).toEqual(ids)
    expect(rows.map(({ payload, priority }) => [payload, priority])).toEqual([
      ['a', 9],
      ['b', 0],
      ['c', 5],
    ])
  })

  test('takes defaults beside options, and null for a payload', async ({ database, queue, tx }) => {
    const special = { payload: null, headers: { h: null }, type: 'a.b', delay: 0.5, maxAttempts: 1, schemaVersion: 2 }
    await enqueueMany(context, tx, queue, [{ payload: null }, special, { payload: [null] }, { payload: 'NULL' }])
    await tx.query('COMMIT')
    const plain = { type: null, schema_version: 1, headers: {}, max_attempts: null }
    expect(await rowsOf(database, queue)).toMatchObject([
      { payload: null, ...plain },
      { payload: null, type: 'a.b', schema_version: 2, headers: { h: null }, max_attempts: 1 },
      { payload: [null], ...plain },
      { payload: 'NULL', ...plain },
    ])
  })

  test('takes several statements for more than 32 MiB, and keeps the order', async ({ database, queue, tx }) => {
    const large = enqueueContext({ payloadLimitBytes: 20 * 1024 * 1024 })
    const text = 'x'.repeat(15 * 1024 * 1024)
    const messages = [1, 2, 3, 4, 5].map((n) => ({ payload: { n, text } }))
    const ids = await enqueueMany(large, tx, queue, messages)
    await tx.query('COMMIT')
    const rows = await database.sql(
      `SELECT id, (payload->>'n')::integer AS n, cmin::text FROM sluice.message WHERE queue = $1 ORDER BY id`,
      [queue],
    )
    expect(rows.map((row) => row.id)).toEqual(ids)
    expect(rows.map((row) => row.n)).toEqual([1, 2, 3, 4, 5])
    expect(new Set(rows.map((row) => row.cmin)).size).toBe(3)
  })

  test('takes more messages than a call takes arguments', async ({ queue, tx }) => {
    const ids = await enqueueMany(
      context,
      tx,
      queue,
      Array.from({ length: 150_000 }, () => ({ payload: 0 })),
    )
    expect(new Set(ids).size).toBe(150_000)
  })

  test('gives [] for [], without touching the database', async ({ queue }) => {
    expect(await enqueueMany(context, undefined, queue, [])).toEqual([])
  })
})

describe('bad input writes nothing and leaves the transaction as it was', () => {
  const cyclic: { self?: unknown } = {}
  cyclic.self = cyclic
  const good: MessageToEnqueue = { payload: 'good' }

  test.for<[string, MessageToEnqueue, string, string]>([
    [
      'M2: a payload that JSON cannot encode',
      { payload: cyclic },
      'PAYLOAD_INVALID',
      'messages[1].payload.self: expected',
    ],
    ['M2: a BigInt', { payload: { id: 1n } }, 'PAYLOAD_INVALID', 'messages[1].payload.id: expected a JSON value'],
    [
      'no payload',
      {} as MessageToEnqueue,
      'PAYLOAD_INVALID',
      'messages[1]: expected an object with a payload, received one without',
    ],
    [
      'a NUL character',
      { payload: 'a\0b' },
      'PAYLOAD_INVALID',
      'messages[1].payload: expected text that jsonb can hold',
    ],
    [
      'a payload over the limit',
      { payload: 'é'.repeat(600_000) },
      'PAYLOAD_TOO_LARGE',
      'messages[1].payload: expected at most 1048576 bytes of JSON, received 1200002',
    ],
    [
      'headers over the limit',
      { payload: 1, headers: { h: 'x'.repeat(1024 * 1024) } },
      'PAYLOAD_TOO_LARGE',
      'messages[1].headers: expected at most',
    ],
    ['an unknown option', { payload: 1, delayMs: 5 } as MessageToEnqueue, 'OPTION_INVALID', 'Did you mean delay?'],
    [
      'a negative delay',
      { payload: 1, delay: -5 },
      'OPTION_INVALID',
      'messages[1].delay: expected milliseconds from 0',
    ],
    ['delay and dueAt', { payload: 1, delay: 5, dueAt: new Date() }, 'OPTION_INVALID', 'received both'],
    [
      'an invalid date',
      { payload: 1, dueAt: new Date('soon') },
      'OPTION_INVALID',
      'messages[1].dueAt: expected a valid Date',
    ],
    [
      'a priority out of range',
      { payload: 1, priority: 10 },
      'OPTION_INVALID',
      'messages[1].priority: expected an integer',
    ],
    [
      'no object',
      null as never,
      'OPTION_INVALID',
      'messages[1]: expected an object with a payload and options, received null',
    ],
  ])('%s', async ([, bad, code, message], { database, queue, tx }) => {
    const refusal = await enqueueMany(context, tx, queue, [good, bad, good]).catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code, message: expect.stringContaining(message) })
    await tx.query('COMMIT')
    expect(await rowsOf(database, queue)).toEqual([])
  })

  test.for<[string, string]>([
    ['an empty name', ''],
    ['a name with a space', 'my queue'],
    ['a name that starts with a dot', '.queue'],
    ['a name of 101 characters', 'q'.repeat(101)],
    ['a name with a line break at its end', 'queue\n'],
  ])('%s, which the table refuses too', async ([, name], { database, tx }) => {
    await expect(enqueueOne(context, tx, name, {})).rejects.toMatchObject({ code: 'QUEUE_NAME_INVALID' })
    await expect(
      database.sql(`INSERT INTO sluice.message (queue, payload) VALUES ($1, '{}')`, [name]),
    ).rejects.toMatchObject({ constraint: 'queue: 1 to 100 letters, digits and _ . : - (no . : - first)' })
  })

  test('a name that is no text', async ({ tx }) => {
    await expect(enqueueOne(context, tx, 7 as never, {})).rejects.toMatchObject({
      code: 'QUEUE_NAME_INVALID',
      message: expect.stringMatching(/^queue: expected a name .+, received 7\. For example/),
    })
  })

  test('messages that are no array', async ({ queue, tx }) => {
    await expect(enqueueMany(context, tx, queue, { payload: 1 } as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/^messages: expected an array of messages, received an object\. As in \[/),
    })
  })

  test('500 levels of nesting, the most that is accepted, are not too many for the server', async ({ queue, tx }) => {
    let deep: unknown = 1
    for (let level = 0; level < 500; level++) deep = { deep }
    await enqueueOne(context, tx, queue, deep)
    const { rows } = await tx.query('SELECT payload FROM sluice.message WHERE queue = $1', [queue])
    expect(rows).toEqual([{ payload: deep }])
  })
})

describe('queues that are defined', () => {
  const definitions = {
    plain: {},
    orders: {
      schema: z.object({
        id: z.number(),
        note: z.string().default('none'),
        lines: z.array(z.object({ quantity: z.number().positive() })).default([]),
      }),
    },
    dated: { schema: z.object({ at: z.date() }) },
    coerced: { schema: z.object({ at: z.coerce.date() }) },
    checked: { schema: z.string().refine(async (text) => text !== 'taken', 'is taken') },
  }
  const defined: EnqueueContext = enqueueContext({ definitions })

  test('refuses other queues, naming the nearest', async ({ tx }) => {
    await expect(enqueueOne(defined, tx, 'order', {})).rejects.toMatchObject({
      code: 'QUEUE_UNKNOWN',
      message:
        'queue: expected one of the queues defined (plain, orders, dated, coerced, checked), received "order". Did you mean "orders"?',
    })
    await expect(enqueueOne(defined, tx, 'toString', {})).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' })
  })

  test('stores a valid payload as it was given, not the output of the schema', async ({ tx }) => {
    await enqueueOne(defined, tx, 'orders', { id: 1, extra: true })
    expect(await stored(tx, 'orders')).toEqual([{ id: 1, extra: true }])
  })

  test('refuses a payload that the schema refuses, listing the paths', async ({ tx }) => {
    const payload = { id: 'one', lines: [{ quantity: 1 }, { quantity: -1 }] }
    await expect(enqueueMany(defined, tx, 'orders', [{ payload: { id: 1 } }, { payload }])).rejects.toMatchObject({
      code: 'PAYLOAD_SCHEMA',
      message: expect.stringMatching(
        /^messages\[1\]\.payload: expected what the schema of queue orders accepts, received an object\. id: .+; lines\[1\]\.quantity: .+/,
      ),
    })
    expect(await stored(tx, 'orders')).toEqual([])
  })

  test('waits for a schema that validates asynchronously', async ({ tx }) => {
    await expect(enqueueOne(defined, tx, 'checked', 'taken')).rejects.toMatchObject({
      code: 'PAYLOAD_SCHEMA',
      message: expect.stringContaining('is taken'),
    })
    await enqueueOne(defined, tx, 'checked', 'free')
    expect(await stored(tx, 'checked')).toEqual(['free'])
  })

  test('shows the schema what the handler will be given: a date is a string', async ({ tx }) => {
    await expect(enqueueOne(defined, tx, 'dated', { at: new Date(0) })).rejects.toMatchObject({
      code: 'PAYLOAD_SCHEMA',
    })
    await enqueueOne(defined, tx, 'coerced', { at: new Date(0) })
    expect(await stored(tx, 'coerced')).toEqual([{ at: '1970-01-01T00:00:00.000Z' }])
  })

  test('accepts anything where no schema is given', async ({ tx }) => {
    await enqueueOne(defined, tx, 'plain', [null])
    expect(await stored(tx, 'plain')).toEqual([[null]])
  })
})

describe('due times', () => {
  test('a delay counts by the database clock, however wrong ours is', async ({ database, queue, tx }) => {
    const before = await clockOf(tx)
    vi.useFakeTimers({ toFake: ['Date'], now: new Date('2001-01-01T00:00:00Z') })
    try {
      await enqueueMany(context, tx, queue, [{ payload: 1 }, { payload: 2, delay: '1h' }])
    } finally {
      vi.useRealTimers()
    }
    await tx.query('COMMIT')
    const rows = await database.sql<{ due: boolean; enqueued: boolean }>(
      `SELECT due_at - (payload::integer - 1) * interval '1 hour' BETWEEN $2 AND clock_timestamp() AS due,
              enqueued_at BETWEEN $2 AND clock_timestamp() AS enqueued
       FROM sluice.message WHERE queue = $1 ORDER BY id`,
      [queue, before],
    )
    expect(rows).toEqual([
      { due: true, enqueued: true },
      { due: true, enqueued: true },
    ])
  })

  test('a message is due from its insert on, not from the start of a long transaction', async ({
    database,
    queue,
    tx,
  }) => {
    await tx.query('SELECT pg_sleep(0.2)')
    await enqueueOne(context, tx, queue, {}, { delay: 0 })
    const { rows } = await tx.query<{ late: boolean }>(
      `SELECT due_at - now() > interval '0.2 seconds' AS late FROM sluice.message WHERE queue = $1`,
      [queue],
    )
    expect(rows).toEqual([{ late: true }])
    expect(await rowsOf(database, queue)).toEqual([])
  })
})

describe('wake-ups', () => {
  test('rows that are due later never notify', async ({ database, queue, tx }) => {
    await using sleeper = await sleepOn(database.url, queue)
    await enqueueMany(context, tx, queue, [
      { payload: 1, delay: '1h' },
      { payload: 2, dueAt: new Date('2999-01-01') },
    ])
    await tx.query('COMMIT')
    expect(await sleeper.notifications()).toEqual([])
  })

  test('nobody is notified when nobody waits', async ({ database, queue, tx }) => {
    await using listener = await sleepOn(database.url, queue, { flag: false })
    await enqueueOne(context, tx, queue, {})
    await tx.query('COMMIT')
    expect(await listener.notifications()).toEqual([])
  })

  test('the trigger is called while somebody waits, and notifies once per queue', async ({ database, queue, tx }) => {
    await tx.query(`SET LOCAL track_functions = 'pl'`)
    await enqueueMany(context, tx, queue, [{ payload: 1 }, { payload: 2 }])
    expect(await callsIn(tx)).toEqual({ queue_defaults: '1' })
    await tx.query('COMMIT; BEGIN')
    await using sleeper = await sleepOn(database.url, queue)
    await tx.query(`SET LOCAL track_functions = 'pl'`)
    await tx.query(
      `INSERT INTO sluice.message (queue, payload)
       SELECT CASE n % 3 WHEN 0 THEN $1 ELSE $1 || '.' || n % 3 END, to_jsonb(n) FROM generate_series(1, 300) AS n`,
      [queue],
    )
    // The calls of the transaction before may not have been counted elsewhere yet.
    expect(await callsIn(tx)).toMatchObject({ wake_inserted: '100' })
    await tx.query('COMMIT')
    expect(await sleeper.notifications()).toEqual([queue])
  })

  test('a plain INSERT wakes', async ({ database, queue }) => {
    await using sleeper = await sleepOn(database.url, queue)
    await database.sql(`INSERT INTO sluice.message (queue, payload) VALUES ($1, '{}')`, [queue])
    expect(await sleeper.notifications()).toEqual([queue])
  })

  test('one INSERT into several queues by turns wakes each that somebody waits for, whatever the search path', async ({
    database,
    queue,
    tx,
  }) => {
    await using sleeper = await sleepOn(database.url, `${queue}.1`)
    await using other = await sleepOn(database.url, `${queue}.3`)
    await tx.query('CREATE SCHEMA played')
    await tx.query(
      `CREATE FUNCTION played.hashtext(text) RETURNS integer LANGUAGE sql AS 'SELECT 7';
       CREATE FUNCTION played.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT';
       SET LOCAL search_path = played, pg_catalog`,
    )
    await tx.query(
      `INSERT INTO sluice.message (queue, payload, due_at)
       SELECT $1 || '.' || n % 4, to_jsonb(n), clock_timestamp() + CASE WHEN n % 4 = 2 THEN interval '1 day' ELSE '0' END
       FROM generate_series(1, 40) AS n`,
      [queue],
    )
    await tx.query('DROP SCHEMA played CASCADE; COMMIT')
    expect(await sleeper.notifications()).toEqual([`${queue}.1`, `${queue}.3`])
    expect(await other.notifications()).toContain(`${queue}.3`)
  })

  test('another queue does not wake', async ({ database, queue, tx }) => {
    await using sleeper = await sleepOn(database.url, queue)
    await enqueueOne(context, tx, `${queue}.other`, {})
    await tx.query('COMMIT')
    expect(await sleeper.notifications()).toEqual([])
  })
})

describe('the SQL function sluice.enqueue', () => {
  test('stores what it is given, and wakes', async ({ database, queue }) => {
    await using sleeper = await sleepOn(database.url, queue)
    const [row] = await database.sql(
      `SELECT sluice.enqueue($1, '{"n": 1}', type => 'order.paid', schema_version => 2, headers => '{"h": 1}',
                             ordering_key => 'k', priority => 0, due_at => '2031-01-01Z', max_attempts => 3) AS id`,
      [queue],
    )
    expect(await rowsOf(database, queue)).toEqual([
      {
        id: row?.id,
        payload: { n: 1 },
        type: 'order.paid',
        schema_version: 2,
        headers: { h: 1 },
        ordering_key: 'k',
        priority: 0,
        due_at: new Date('2031-01-01Z'),
        max_attempts: 3,
        attempt: 0,
      },
    ])
    expect(await sleeper.notifications()).toEqual([])
    await database.sql(`SELECT sluice.enqueue($1, '{}')`, [queue])
    expect(await sleeper.notifications()).toEqual([queue])
  })

  test('takes the same defaults as enqueue', async ({ database, queue, tx }) => {
    await enqueueOne(context, tx, queue, {})
    await tx.query(`SELECT sluice.enqueue($1, '{}')`, [queue])
    await tx.query('COMMIT')
    const [ours, theirs] = await rowsOf(database, queue)
    expect(ours).toEqual({ ...theirs, id: ours?.id, due_at: expect.any(Date) })
  })

  test('delays by the clock of the database', async ({ queue, tx }) => {
    const before = await clockOf(tx)
    await tx.query(`SELECT sluice.enqueue($1, '{}', delay => '90 seconds')`, [queue])
    const { rows } = await tx.query<{ between: boolean }>(
      `SELECT due_at - interval '90 seconds' BETWEEN $2 AND clock_timestamp() AS between
       FROM sluice.message WHERE queue = $1`,
      [queue, before],
    )
    expect(rows).toEqual([{ between: true }])
  })

  test('is rolled back with its transaction', async ({ database, queue, tx }) => {
    await tx.query(`SELECT sluice.enqueue($1, '{}')`, [queue])
    await tx.query('ROLLBACK')
    expect(await rowsOf(database, queue)).toEqual([])
  })

  test.for<[string, string]>([
    ['no payload', `SELECT sluice.enqueue($1, NULL)`],
    ['a payload over the limit', `SELECT sluice.enqueue($1, to_jsonb(repeat('x', 1048577)))`],
    ['a negative delay', `SELECT sluice.enqueue($1, '{}', delay => '-1 second')`],
    ['delay and due_at', `SELECT sluice.enqueue($1, '{}', delay => '1 second', due_at => now())`],
    ['a delay of more than a hundred years', `SELECT sluice.enqueue($1, '{}', delay => '101 years')`],
    ['an instant in another era', `SELECT sluice.enqueue($1, '{}', due_at => '10000-01-01 00:00Z')`],
    ['an instant at infinity', `SELECT sluice.enqueue($1, '{}', due_at => 'infinity')`],
    [
      'headers over the limit',
      `SELECT sluice.enqueue($1, '{}', headers => jsonb_build_object('x', repeat('x', 1048577)))`,
    ],
    ['a type with a space', `SELECT sluice.enqueue($1, '{}', type => 'order paid')`],
    ['a type with a wildcard', `SELECT sluice.enqueue($1, '{}', type => 'order.*')`],
    ['a type with an empty segment', `SELECT sluice.enqueue($1, '{}', type => 'order..paid')`],
    ['a type that ends with a dot', `SELECT sluice.enqueue($1, '{}', type => 'order.')`],
    ['a priority out of range', `SELECT sluice.enqueue($1, '{}', priority => 10)`],
    ['schema version 0', `SELECT sluice.enqueue($1, '{}', schema_version => 0)`],
    ['no attempts at all', `SELECT sluice.enqueue($1, '{}', max_attempts => 0)`],
    ['headers that are an array', `SELECT sluice.enqueue($1, '{}', headers => '[]')`],
    ['an empty ordering key', `SELECT sluice.enqueue($1, '{}', ordering_key => '')`],
    ['too long an ordering key', `SELECT sluice.enqueue($1, '{}', ordering_key => repeat('é', 128))`],
    ['an empty type', `SELECT sluice.enqueue($1, '{}', type => '')`],
    ['a name that no queue can have', `SELECT sluice.enqueue($1 || ' !', '{}')`],
    ['an unknown option', `SELECT sluice.enqueue($1, '{}', delay_ms => 5)`],
  ])('refuses %s, as enqueue does', async ([, text], { database, queue }) => {
    await expect(database.sql(text, [queue])).rejects.toThrow()
    expect(await database.sql('SELECT 1 FROM sluice.message WHERE queue LIKE $1', [`${queue}%`])).toEqual([])
  })
})

/** To the microsecond, which a Date has not. */
async function clockOf(tx: pg.Client): Promise<string> {
  const { rows } = await tx.query<{ now: string }>('SELECT clock_timestamp()::text AS now')
  return rows[0]!.now
}

async function rowsOf(database: TestDatabase, queue: string) {
  return database.sql<{ id: string; payload: unknown; priority: number }>(
    `SELECT id, payload, type, schema_version, headers, ordering_key, priority, due_at, max_attempts, attempt
     FROM sluice.message WHERE queue = $1 ORDER BY id`,
    [queue],
  )
}

async function stored(tx: pg.Client, queue: string): Promise<unknown[]> {
  const { rows } = await tx.query<{ payload: unknown }>('SELECT payload FROM sluice.message WHERE queue = $1', [queue])
  return rows.map(({ payload }) => payload)
}

/** How often the functions of the trigger have been called in this transaction. */
async function callsIn(tx: pg.Client): Promise<Record<string, string>> {
  const { rows } = await tx.query<{ funcname: string; calls: string }>(
    `SELECT funcname, calls FROM pg_stat_xact_user_functions WHERE schemaname IN ('sluice', 'sluice_private')`,
  )
  return Object.fromEntries(rows.map(({ funcname, calls }) => [funcname, calls]))
}

async function inTransaction<T>(
  database: TestDatabase,
  work: (execute: Execute, client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const client = await database.pool.connect()
  try {
    await client.query('BEGIN')
    const result = await work(async ({ text }, params) => (await client.query(text, [...params])).rows, client)
    await client.query('COMMIT')
    return result
  } finally {
    client.release(true)
  }
}
