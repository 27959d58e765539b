import { describe, expect } from 'vitest'
import * as z from 'zod'
import { untilEmpty } from '../../support/rows/rows.ts'
import { test as base, startTestSluice } from '../../support/sluice.ts'

let streams = 0

const test = base
  .extend('stream', async ({ sluice }) => {
    const name = `s${++streams}`
    await sluice.streams.set(name)
    return name
  })
  .extend('client', async ({ database }, { onCleanup }) => {
    const client = await database.pool.connect()
    onCleanup(() => client.release(true))
    await client.query('BEGIN')
    return client
  })

describe('append', () => {
  test('returns positions that ascend, in the order of the events, over statements and transactions', async ({
    sluice,
    stream,
    client,
  }) => {
    const first = await sluice.append(sluice.ownTransaction, stream, 1)
    const many = await sluice.appendMany(
      client,
      stream,
      Array.from({ length: 500 }, (_, n) => ({ payload: n, orderingKey: n % 3 === 0 ? undefined : `key ${n % 50}` })),
    )
    const last = await sluice.append(client, stream, 2, { orderingKey: 'key 1' })
    const all = [first, ...many, last]
    expect(all).toEqual(all.toSorted((a, b) => a - b))
    expect(new Set(all).size).toBe(502)
    expect(first).toBe(1)
  })

  test('refuses by SQL the types that enqueue refuses by SQL', async ({ database, stream }) => {
    const doors = {
      enqueue: `SELECT sluice.enqueue($1, '1', type => $2)`,
      append: 'SELECT sluice.append($1, 1::text::jsonb, type => $2)',
      appendMany: `SELECT sluice.append_many($1, '[1, 2]', jsonb_build_array('{}'::jsonb, jsonb_build_object('type', $2::text)))`,
    }
    for (const type of ['two words', 'any*', '.a', 'a..b', 'a\u0007', 'a\u00a0b']) {
      for (const [door, text] of Object.entries(doors)) {
        await expect(database.sql(text, [stream, type]), `${door} ${type}`).rejects.toMatchObject({
          code: '22023',
          message: expect.stringContaining('type: expected dot-separated text'),
        })
      }
    }
    await database.sql(doors.append, [stream, 'order.paid'])
    await database.sql(doors.appendMany, [stream, 'order.paid'])
    expect(await database.sql('SELECT FROM sluice.event WHERE type IS NOT NULL')).toHaveLength(2)
  })

  test('takes what enqueue takes, and refuses the same, before it writes', async ({ database, stream, client }) => {
    const sluice = startTestSluice(database, { payloadLimitBytes: 40 })
    for (const [payload, options, code] of [
      [10n, {}, 'PAYLOAD_INVALID'],
      [undefined, {}, 'PAYLOAD_INVALID'],
      ['\0', {}, 'PAYLOAD_INVALID'],
      ['\ud800', {}, 'PAYLOAD_INVALID'],
      ['x'.repeat(39), {}, 'PAYLOAD_TOO_LARGE'],
      [1, { headers: { a: 'x'.repeat(39) } }, 'PAYLOAD_TOO_LARGE'],
      [1, { headers: [] }, 'OPTION_INVALID'],
      [1, { orderingKey: '' }, 'OPTION_INVALID'],
      [1, { orderingKey: 'é'.repeat(128) }, 'OPTION_INVALID'],
      [1, { orderingKey: 7 }, 'OPTION_INVALID'],
      [1, { type: 'a b' }, 'OPTION_INVALID'],
      [1, { schemaVersion: 0 }, 'OPTION_INVALID'],
      [1, { priority: 1 }, 'OPTION_INVALID'],
      [1, { delay: '1s' }, 'OPTION_INVALID'],
      [1, null, 'OPTION_INVALID'],
    ] as const) {
      await expect(sluice.append(client, stream, payload, options as never)).rejects.toMatchObject({ code })
    }
    const mistake = sluice.appendMany(client, stream, [{ payload: 1 }, { payload: 2, type: '*' }])
    await expect(mistake).rejects.toThrow('events[1].type: expected dot-separated text')
    await expect(sluice.appendMany(client, stream, 'none' as never)).rejects.toThrow(
      'events: expected an array of events',
    )
    await expect(sluice.append('orders' as never, {} as never, {})).rejects.toThrow('As in append(tx, stream, payload)')
    expect(await sluice.appendMany(client, stream, [])).toEqual([])
    expect(await sluice.append(client, stream, 'x'.repeat(38))).toBe(1)
  })

  test('is refused outside a transaction, to a stream that nobody has made, and under a name that none can have', async ({
    sluice,
    database,
    stream,
    client,
  }) => {
    await expect(sluice.append(database.pool as never, stream, 1)).rejects.toMatchObject({ code: 'NOT_IN_TRANSACTION' })
    await expect(sluice.append(client, 'a:b', 1)).rejects.toMatchObject({ code: 'STREAM_NAME_INVALID' })
    await expect(sluice.append(client, 'x'.repeat(50), 1)).rejects.toMatchObject({ code: 'STREAM_NAME_INVALID' })
    await expect(sluice.append(client, 'nowhere', 1)).rejects.toMatchObject({
      code: 'STREAM_UNKNOWN',
      message: expect.stringContaining(
        'stream: expected one that exists, received "nowhere". Make it with sluice.streams.set("nowhere")',
      ),
    })
  })

  test('checks payloads by the schema of the stream, and names against those that are defined', async ({
    database,
  }) => {
    const Order = z.object({ id: z.number() })
    const sluice = startTestSluice(database, { streams: { placed: { schema: Order }, 'placed.twice': {} } })
    await sluice.streams.set('placed')
    const tx = sluice.ownTransaction
    expect(await sluice.append(tx, 'placed', { id: 1 })).toBe(1)
    // @ts-expect-error: its schema wants a number
    await expect(sluice.append(tx, 'placed', { id: 'x' })).rejects.toThrow('what the schema of stream placed accepts')
    // @ts-expect-error: there is no such stream
    await expect(sluice.appendMany(tx, 'plased', [{ payload: 1 }])).rejects.toThrow('Did you mean "placed"?')
    // @ts-expect-error: there is no such stream
    await expect(sluice.streams.set('plased')).rejects.toMatchObject({ code: 'STREAM_UNKNOWN' })
    expect(() => startTestSluice(database, { streams: { 'a:b': {} } })).toThrow('stream: expected a name')
  })

  test('in a handler is kept with what the handler does, and gone if it fails', async ({
    sluice,
    database,
    queue,
    stream,
  }) => {
    sluice
      .pipeline(queue, { retry: { kind: 'fixed', delay: '1ms' } })
      .handle(async ({ attempt }, { tx }) => {
        await sluice.append(tx, stream, { attempt })
        if (attempt === 0) throw new Error('on purpose')
        void sluice.append(tx, stream, 'nobody waits for it')
      })
      .subscribe()
    await sluice.enqueue(sluice.ownTransaction, queue, {})
    await untilEmpty(database, queue)
    const rows = await database.sql(
      `SELECT e.payload FROM sluice.event e JOIN sluice.stream s ON s.id = e.stream_id WHERE s.stream = $1 ORDER BY position`,
      [stream],
    )
    expect(rows).toEqual([{ payload: { attempt: 1 } }, { payload: 'nobody waits for it' }])
  })
})

describe('sluice.stream', () => {
  test('makes a stream once, and changes what is given', async ({ sluice, database }) => {
    const settings = () =>
      database.sql(
        `SELECT partitions, retain_ms, retain_bytes, keep_unread, segment_ms FROM sluice.stream WHERE stream = 'told'`,
      )
    expect(await sluice.streams.set('told', { partitions: 4, retain: '30d', retainBytes: 1e9, segment: '1h' })).toBe(
      true,
    )
    const first = {
      partitions: 4,
      retain_ms: '2592000000',
      retain_bytes: '1000000000',
      keep_unread: true,
      segment_ms: '3600000',
    }
    expect(await settings()).toEqual([first])
    expect(await sluice.streams.set('told')).toBe(false)
    expect(await settings()).toEqual([first])
    expect(await sluice.streams.set('told', { retain: null, retainBytes: null, keepUnread: false })).toBe(false)
    expect(await settings()).toEqual([{ ...first, retain_ms: null, retain_bytes: null, keep_unread: false }])
    expect(await sluice.streams.set('told', { partitions: 4, retain: '1d' })).toBe(false)
    expect(await settings()).toMatchObject([{ retain_ms: '86400000', keep_unread: false }])
  })

  test('never changes its partitions when it has events', async ({ sluice, stream }) => {
    await sluice.append(sluice.ownTransaction, stream, 1)
    await expect(sluice.streams.set(stream, { partitions: 8 })).rejects.toMatchObject({
      code: 'STREAM_PARTITIONS_FIXED',
      message: expect.stringMatching(
        /^partitions: expected 16, .*, received 8\. Leave partitions out, or make another stream$/,
      ),
    })
  })

  test.for([
    [{ partitions: 3 }, 'settings.partitions'],
    [{ retain: '0s' }, 'settings.retain'],
    [{ retainBytes: 0.5 }, 'settings.retainBytes'],
    [{ keepUnread: 'yes' }, 'settings.keepUnread'],
    [{ segment: '1ms' }, 'settings.segment'],
    [{ shards: 4 }, 'settings'],
  ] as const)('refuses %j', async ([settings, what], { sluice }) => {
    await expect(sluice.streams.set('refused', settings as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining(`${what}: expected`),
    })
  })

  test('is made once by several at the same time, and with the transaction that makes it', async ({
    database,
    sluice,
    client,
  }) => {
    const made = await Promise.all(Array.from({ length: 8 }, () => sluice.streams.set('raced')))
    expect(made.filter(Boolean)).toHaveLength(1)
    expect(await sluice.streams.set('undone', {}, { tx: client })).toBe(true)
    expect(await sluice.append(client, 'undone', 1)).toBe(1)
    await client.query('ROLLBACK')
    expect(await database.sql(`SELECT FROM sluice.stream WHERE stream = 'undone'`)).toEqual([])
  })
})

describe('the table of a stream', () => {
  test('takes no row by hand, and its sequence keeps no positions for a session', async ({
    database,
    stream,
    sluice,
  }) => {
    await sluice.append(sluice.ownTransaction, stream, 1)
    const [{ id, positions } = { id: 0, positions: '' }] = await database.sql<{ id: number; positions: string }>(
      'SELECT id, positions::text FROM sluice.stream WHERE stream = $1',
      [stream],
    )
    for (const table of ['event', `event_${id}`, `event_${id}_0`]) {
      await expect(
        database.sql(`INSERT INTO sluice.${table} (stream_id, partition, payload) VALUES (${id}, 0, '1')`),
      ).rejects.toThrow(/^no partition of relation|^null value in column "position"/)
    }
    const [sequence] = await database.sql(
      `SELECT seqcache, seqincrement, seqcycle FROM pg_sequence WHERE seqrelid = $1::regclass`,
      [positions],
    )
    expect(sequence).toEqual({ seqcache: '1', seqincrement: '1', seqcycle: false })
  })

  test('says so if it has not taken an event', async ({ database, stream, sluice, client }) => {
    await database.sql(`
      CREATE FUNCTION public.swallow_${stream}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER swallow BEFORE INSERT ON sluice.event FOR EACH ROW
      WHEN (NEW.payload = '"${stream}"') EXECUTE FUNCTION public.swallow_${stream}()`)
    await expect(sluice.append(client, stream, stream)).rejects.toMatchObject({ code: 'ROWS_MISSING' })
    const many = sluice.appendMany(sluice.ownTransaction, stream, [{ payload: 1 }, { payload: stream }])
    await expect(many).rejects.toThrow('expected to take 2 row(s) for stream')
  })

  test.for([
    ['null', '[]', 'append_many: expected payloads and options to be JSON arrays, received null and array'],
    [null, '[]', 'received null and array'],
    ['{}', '[]', 'received object and array'],
    ['[1]', '{}', 'received array and object'],
    ['[1]', '[{}, {}]', 'expected at most one object of options for each payload, received 2 for 1'],
    [
      '[1, 2]',
      '[{}, {"ordering_key": "a"}]',
      'options[1]: expected an object with orderingKey, type, schemaVersion and headers',
    ],
    ['[1]', '[null]', 'options[0]: expected an object'],
    ['[1]', '[[]]', 'options[0]: expected an object'],
    ['[1, 2]', '[{"type": null}, {"type": 5}]', 'options[1].type: expected a string, received 5'],
    ['[1]', '[{"type": {"a": 1}}]', 'options[0].type: expected a string, received {"a": 1}'],
  ] as const)(
    'refuses by SQL the payloads %s with the options %s',
    async ([payloads, options, says], { database, stream }) => {
      const sent = database.sql('SELECT sluice.append_many($1, $2, $3)', [stream, payloads, options])
      await expect(sent).rejects.toMatchObject({ code: '22023', message: expect.stringContaining(says) })
    },
  )

  test('locks the partition of every event that append_many puts somewhere, whatever its options are', async ({
    database,
    stream,
    client,
  }) => {
    const keys = ['[{"orderingKey": "a"}]', '[{}, {"orderingKey": 5}]', '[{"orderingKey": null}]']
    for (const options of ['[]', null, ...keys]) {
      await client.query(`SELECT sluice.append_many($1, (SELECT jsonb_agg(n) FROM generate_series(1, 250) n), $2)`, [
        stream,
        options,
      ])
      const { rows: open } = await client.query<{ partition: number }>(
        `SELECT DISTINCT (classid::bigint & 255)::integer AS partition FROM pg_locks
         WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND classid::bigint >> 24 = 76 ORDER BY 1`,
      )
      const { rows: filled } = await client.query(
        `SELECT DISTINCT e.partition::integer FROM sluice.event e JOIN sluice.stream s ON s.id = e.stream_id WHERE s.stream = $1 ORDER BY 1`,
        [stream],
      )
      expect(open).toEqual(filled)
      await client.query('ROLLBACK; BEGIN')
    }
    await expect(client.query(`SELECT sluice.append_many($1, '[1]', '[{}, {}]')`, [stream])).rejects.toThrow('payload')
    expect(await database.sql('SELECT')).toHaveLength(1)
  })
})

test('a dead letter, and what comes back from it, keep the position of their event', async ({
  sluice,
  database,
  queue,
}) => {
  for (const mode of ['transactional', 'leased'] as const) {
    const name = `${queue}.${mode}`
    await database.sql("INSERT INTO sluice.message (queue, payload, event_position) VALUES ($1, '1', 4711)", [name])
    const pipeline = sluice.pipeline(name, { mode: mode as 'transactional', maxAttempts: 1 }).handle(() => {
      throw new Error('on purpose')
    })
    await pipeline.runOnce()
    const dead = 'SELECT event_position FROM sluice.dead_letter WHERE queue = $1'
    expect(await database.sql(dead, [name])).toEqual([{ event_position: '4711' }])
    await database.sql('SELECT sluice.redrive($1)', [name])
    const back = 'SELECT event_position FROM sluice.message WHERE queue = $1'
    expect(await database.sql(back, [name])).toEqual([{ event_position: '4711' }])
    const claim = await sluice.claim(name)
    await database.sql(`SELECT sluice.claim_settle($1, $2, outcome => 'dead_letter', reason => 'no')`, [
      name,
      claim?.id,
    ])
    expect(await database.sql(dead, [name])).toEqual([{ event_position: '4711' }])
  }
})
