import { describe, expect } from 'vitest'
import { z } from 'zod'
import { SluiceError } from '../../../src/errors.ts'
import type { ReceivedMessage } from '../../../src/inbox/receiver.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base, startTestSluice } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const test = base.extend('from', () => new MemoryReceiver())

const QUICK = { delay: '10ms', maxDelay: '20ms' } as const
const ONCE = { wait: '50ms' } as const
const SOURCE = '3f0c1f6e-6a0b-4b7e-9d6c-0a1b2c3d4e5f'

const numbered = (count: number, first = 0) =>
  Array.from({ length: count }, (_, at) => ({ id: `m-${first + at}`, payload: first + at }))
const range = (count: number) => Array.from({ length: count }, (_, at) => at)

interface Letter {
  readonly payload: unknown
  readonly headers: unknown
  readonly reason: string
}

const lettersOf = (database: TestDatabase, queue: string) =>
  database.sql<Letter>('SELECT payload, headers, reason FROM sluice.dead_letters d WHERE d.queue = $1 ORDER BY d.id', [
    queue,
  ])

const receiptsOf = (database: TestDatabase, queue: string) =>
  database.sql<{ source: string; message_id: string }>(
    'SELECT source, message_id FROM sluice.receipt r WHERE r.queue = $1 ORDER BY r.message_id',
    [queue],
  )

describe('an inbox', () => {
  test('enqueues a message with what its receiver has found, and acks it', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    const headers = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' }
    from.deliver({ id: 'a', payload: { total: 12 }, headers, type: 'order.placed', orderingKey: 'ada' })
    expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toEqual({ enqueued: 1, duplicates: 0, dead: 0 })
    expect(
      await database.sql('SELECT payload, headers, type, ordering_key FROM sluice.message WHERE queue = $1', [queue]),
    ).toEqual([{ payload: { total: 12 }, headers, type: 'order.placed', ordering_key: 'ada' }])
    expect(await receiptsOf(database, queue)).toEqual([{ source: 'memory', message_id: 'a' }])
    expect(from.acked.map(({ id }) => id)).toEqual(['a'])
    expect(from.connections).toBe(0)
  })

  test('restores type, key, version and headers of a message that a relay has published, and names its database', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    const headers = {
      'sluice-message-id': '17',
      'sluice-queue': 'orders',
      'sluice-type': 'order.placed',
      'sluice-ordering-key': 'gr%C3%BC%C3%9Fe%20%25',
      'sluice-schema-version': '3',
      'sluice-enqueued-at': '2030-01-01T00:00:00.000Z',
      tracestate: 'a=b',
    }
    from.deliver({ id: `${SOURCE}/17`, payload: 1, headers })
    await sluice.inbox(queue, { from, source: 'others' }).runOnce(ONCE)
    expect(
      await database.sql('SELECT headers, type, ordering_key, schema_version FROM sluice.message WHERE queue = $1', [
        queue,
      ]),
    ).toEqual([{ headers: { tracestate: 'a=b' }, type: 'order.placed', ordering_key: 'grüße %', schema_version: 3 }])
    expect(await receiptsOf(database, queue)).toEqual([{ source: SOURCE, message_id: '17' }])
  })

  test('takes what the option read says of a message, and its payload from there', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    from.deliver({ id: 'ignored', body: Uint8Array.of(7, 8), headers: { event: 'e1' }, type: 'kept' })
    const inbox = sluice.inbox(queue, {
      from,
      read: ({ headers, body }) => ({ id: headers.event, source: 'sensors', orderingKey: 'k', payload: [...body] }),
    })
    expect(await inbox.runOnce(ONCE)).toMatchObject({ enqueued: 1 })
    expect(
      await database.sql('SELECT payload, type, ordering_key FROM sluice.message WHERE queue = $1', [queue]),
    ).toEqual([{ payload: [7, 8], type: 'kept', ordering_key: 'k' }])
    expect(await receiptsOf(database, queue)).toEqual([{ source: 'sensors', message_id: 'e1' }])
  })

  test('stores the body as it came, with more digits than JavaScript holds', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    from.deliver({ id: 'a', body: new TextEncoder().encode('{"n": 12345678901234567890.5, "s": "\\ud83c\\udf0a"}') })
    await sluice.inbox(queue, { from }).runOnce(ONCE)
    expect(
      await database.sql(`SELECT payload ->> 'n' AS n, payload ->> 's' AS s FROM sluice.message WHERE queue = $1`, [
        queue,
      ]),
    ).toEqual([{ n: '12345678901234567890.5', s: '\u{1f30a}' }])
  })

  test('messages are enqueued in the order in which they came, across batches', async ({
    database,
    sluice,
    queue,
    log,
    from,
  }) => {
    from.deliver(...numbered(250))
    const running = sluice.inbox(queue, { from, batchSize: 30 }).start()
    await waitFor(() => from.acked.length === 250, { what: 'all acks' })
    await running.drain()
    expect(await payloadsOf(database, queue)).toEqual(range(250))
    expect(running.statistics()).toEqual({ enqueued: 250, duplicates: 0, dead: 0 })
    expect(log.of('inbox.stored').map(({ enqueued }) => enqueued)).toEqual([...Array(8).fill(30), 10])
    expect(from.connections).toBe(0)
  })
})

describe('copies', () => {
  test('a copy is dropped in the same batch and in later ones, until its receipt is too old', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    const inbox = sluice.inbox(queue, { from, retention: '1d' })
    from.deliver({ id: 'a', payload: 1 }, { id: 'b', payload: 2 }, { id: 'a', payload: 3 })
    expect(await inbox.runOnce(ONCE)).toEqual({ enqueued: 2, duplicates: 1, dead: 0 })
    from.deliver({ id: 'b', payload: 4 })
    expect(await inbox.runOnce(ONCE)).toEqual({ enqueued: 0, duplicates: 1, dead: 0 })
    expect(from.acked).toHaveLength(4)
    expect(await payloadsOf(database, queue)).toEqual([1, 2])
    await database.sql(
      `UPDATE sluice.receipt SET until = until - interval '1 day' WHERE queue = $1 AND message_id = 'b'`,
      [queue],
    )
    expect((await sluice.operate.maintain()).receipts).toBe(1)
    from.deliver({ id: 'a', payload: 5 }, { id: 'b', payload: 6 })
    expect(await inbox.runOnce(ONCE)).toEqual({ enqueued: 1, duplicates: 1, dead: 0 })
    expect(await payloadsOf(database, queue)).toEqual([1, 2, 6])
  })

  test('new messages among copies are enqueued in the order in which they came', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    const inbox = sluice.inbox(queue, { from })
    from.deliver(...numbered(1, 4), ...numbered(1, 1))
    await inbox.runOnce(ONCE)
    from.deliver(...numbered(6), ...numbered(3))
    expect(await inbox.runOnce(ONCE)).toEqual({ enqueued: 4, duplicates: 5, dead: 0 })
    expect(await payloadsOf(database, queue)).toEqual([4, 1, 0, 2, 3, 5])
  })

  test('an id of two sources in one batch is two messages, and a copy is one of its own source', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    const read = ({ headers }: ReceivedMessage) => ({ source: headers.source })
    const inbox = sluice.inbox(queue, { from, read })
    const of = (source: string, payload: number) => ({ id: 'a', headers: { source }, payload })
    from.deliver(of('east', 1), of('west', 2), of('east', 3))
    expect(await inbox.runOnce(ONCE)).toEqual({ enqueued: 2, duplicates: 1, dead: 0 })
    from.deliver(of('north', 4), of('west', 5))
    expect(await inbox.runOnce(ONCE)).toEqual({ enqueued: 1, duplicates: 1, dead: 0 })
    expect(await payloadsOf(database, queue)).toEqual([1, 2, 4])
  })

  test('two processes that get the same messages at once enqueue each of them once', async ({ database, queue }) => {
    const messages = range(300).map((n) => ({ id: `m-${n}`, payload: n }))
    const processes = [messages, messages.toReversed()].map((given) => {
      const from = new MemoryReceiver()
      from.deliver(...given)
      return { from, running: startTestSluice(database).inbox(queue, { from, batchSize: 50, breaker: QUICK }).start() }
    })
    await waitFor(() => processes.every(({ from }) => from.acked.length === 300), { what: 'all acks' })
    for (const { running } of processes) await running.drain()
    const payloads = await payloadsOf(database, queue)
    expect(payloads.toSorted((a, b) => Number(a) - Number(b))).toEqual(range(300))
    const counts = processes.map(({ running }) => running.statistics())
    expect(counts.reduce((sum, { duplicates }) => sum + duplicates, 0)).toBe(300)
  })

  test('a copy that comes while the first one is being stored waits, and is new if that fails', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    const first = await database.pool.connect()
    await first.query('BEGIN')
    expect(await sluice.received(first, queue, 'memory', 'a')).toBe(true)
    from.deliver({ id: 'a', payload: 1 })
    const running = sluice.inbox(queue, { from }).start()
    const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
      AND query LIKE '%sluice_private.receive(%'`
    await waitFor(async () => (await database.sql(waits)).length > 0, { what: 'the copy to wait' })
    expect(from.acked).toEqual([])
    await first.query('ROLLBACK')
    first.release()
    await waitFor(() => from.acked.length === 1, { what: 'the ack' })
    expect(running.statistics()).toEqual({ enqueued: 1, duplicates: 0, dead: 0 })
    await running.drain()
  })

  test('the same id of two sources, or for two queues, is two messages', async ({ database, sluice, queue, from }) => {
    from.deliver({ id: 'a', payload: 1, headers: { of: 'x' } }, { id: 'a', payload: 2, headers: { of: 'y' } })
    await sluice.inbox(queue, { from, read: ({ headers }) => ({ source: headers.of }) }).runOnce(ONCE)
    expect(await payloadsOf(database, queue)).toEqual([1, 2])
    from.deliver({ id: 'a', payload: 1 })
    expect(await sluice.inbox(`${queue}.more`, { from, source: 'x' }).runOnce(ONCE)).toMatchObject({ enqueued: 1 })
  })
})

describe('acks', () => {
  test('a broker has no ack while the transaction is open', async ({ database, sluice, queue, from }) => {
    const seen = deferred<readonly unknown[]>()
    from.onAck = async () => seen.resolve(await payloadsOf(database, queue))
    from.deliver(...numbered(3))
    const running = sluice.inbox(queue, { from }).start()
    expect(await seen.promise).toEqual([0, 1, 2])
    await running.drain()
  })

  test('a crash between the COMMIT and the ack gives copies, which are dropped', async ({
    database,
    sluice,
    queue,
    log,
    from,
  }) => {
    let crashes = 2
    from.onAck = () => {
      if (crashes-- > 0) throw new Error('the process is gone')
    }
    from.deliver(...numbered(5))
    const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
    await waitFor(() => from.acked.length === 5, { what: 'the acks' })
    await running.drain()
    expect(await payloadsOf(database, queue)).toEqual(range(5))
    expect(running.statistics()).toEqual({ enqueued: 5, duplicates: 10, dead: 0 })
    expect(log.of('inbox.unavailable')).toMatchObject([
      { queue, receiver: 'memory', side: 'receiver', error: 'the process is gone' },
      { side: 'receiver' },
    ])
  })

  test('a batch of which the table does not take a message is neither enqueued nor acked', async ({
    database,
    sluice,
    queue,
    log,
    from,
  }) => {
    from.deliver(...numbered(3))
    await database.sql(`
      CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER swallow BEFORE INSERT ON sluice.message FOR EACH ROW WHEN (NEW.payload = '1')
        EXECUTE FUNCTION public.swallow()`)
    const inbox = sluice.inbox(queue, { from })
    try {
      expect(await inbox.runOnce(ONCE)).toEqual({ enqueued: 0, duplicates: 0, dead: 0 })
    } finally {
      await database.sql('DROP FUNCTION public.swallow CASCADE')
    }
    expect(log.of('inbox.unavailable')).toMatchObject([
      { side: 'database', error: expect.stringContaining('sluice.message: expected to take 3 row(s)') },
    ])
    expect(from.acked).toEqual([])
    expect(await inbox.runOnce(ONCE)).toEqual({ enqueued: 3, duplicates: 0, dead: 0 })
    expect(await payloadsOf(database, queue)).toEqual([0, 1, 2])
  })

  test('an inbox that is stopped before the COMMIT leaves the messages to the broker', async ({
    database,
    sluice,
    queue,
    log,
    from,
  }) => {
    from.deliver(...numbered(3))
    await database.sql('ALTER TABLE sluice.receipt RENAME TO receipt_away')
    try {
      const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
      expect(await log.first('inbox.unavailable')).toMatchObject({ side: 'database' })
      expect(await running.drain({ timeout: '50ms' })).toEqual({ completed: false })
    } finally {
      await database.sql('ALTER TABLE sluice.receipt_away RENAME TO receipt')
    }
    expect(from.acked).toEqual([])
    expect(from.connections).toBe(0)
    expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toEqual({ enqueued: 3, duplicates: 0, dead: 0 })
  })
})

describe('a message that can never be enqueued', () => {
  const bytes = (text: string) => new TextEncoder().encode(text)

  test('a message that cannot be enqueued becomes a dead letter with its reason, beside the others of its batch', async ({
    database,
    queue,
    from,
  }) => {
    const sluice = startTestSluice(database, {
      queues: { [queue]: { schema: z.object({ n: z.number() }) } },
      payloadLimitBytes: 1_000,
    })
    from.deliver(
      { id: 'first', payload: { n: 1 } },
      { id: 'text', body: bytes('no JSON') },
      { id: 'latin', body: Uint8Array.of(0x22, 0xe9, 0x22), headers: { a: 'b' } },
      { id: 'nul', body: bytes('{"n": "\\u0000"}') },
      { id: 'schema', payload: { n: 'one' } },
      { id: 'large', payload: { n: 1, text: 'x'.repeat(1_000) } },
      { id: 'key', payload: { n: 1 }, orderingKey: 'k'.repeat(256) },
      { payload: { n: 1 } },
      { id: 'i'.repeat(1_001), payload: { n: 1 } },
      { id: 'last', payload: { n: 2 } },
    )
    expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toEqual({ enqueued: 2, duplicates: 0, dead: 8 })
    expect(await payloadsOf(database, queue)).toEqual([{ n: 1 }, { n: 2 }])
    const letters = await lettersOf(database, queue)
    expect(letters.map(({ reason }) => reason)).toEqual([
      'message.body: expected JSON in UTF-8, received 7 bytes',
      'message.body: expected JSON in UTF-8, received 3 bytes',
      expect.stringContaining('message.body.n: expected text that jsonb can hold, received a NUL character'),
      expect.stringContaining(`message.body: expected what the schema of queue ${queue} accepts`),
      expect.stringContaining('message.body: expected at most 1000 bytes of JSON, received'),
      expect.stringContaining('message.orderingKey: expected 1 to 255 bytes of text'),
      'message.id: expected 1 to 1000 bytes of text, received undefined. Let the publisher give each message such an id, or return one from the option read',
      expect.stringContaining('message.id: expected 1 to 1000 bytes of text, received "iii'),
    ])
    expect(letters.map(({ payload }) => payload)).toEqual([
      { base64: Buffer.from('no JSON').toString('base64'), bytes: 7 },
      { base64: Buffer.from([0x22, 0xe9, 0x22]).toString('base64'), bytes: 3 },
      { base64: Buffer.from('{"n": "\\u0000"}').toString('base64'), bytes: 15 },
      { n: 'one' },
      { n: 1, text: 'x'.repeat(1_000) },
      { n: 1 },
      { n: 1 },
      { n: 1 },
    ])
    expect(letters[1]?.headers).toEqual({ a: 'b' })
    expect(from.acked).toHaveLength(10)
  })

  test('is dead once, however often it comes, if it has an id', async ({ database, sluice, queue, log, from }) => {
    from.deliver({ id: 'a', body: bytes('{') }, { id: 'a', body: bytes('{') })
    expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toEqual({ enqueued: 0, duplicates: 1, dead: 1 })
    expect(await lettersOf(database, queue)).toHaveLength(1)
    expect(log.of('message.dead')).toMatchObject([{ queue, attempt: 0, reason: expect.stringContaining('JSON') }])
  })

  test('that the server alone refuses is dead too, and the others of its batch are enqueued', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    await sluice.operate.queues.settings.set(queue, { payloadLimitBytes: 50 })
    from.deliver(
      { id: 'a', payload: 1 },
      { id: 'b', body: bytes('1e200000') },
      { id: 'c', payload: 'x'.repeat(100) },
      { id: 'd', payload: 4 },
    )
    expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toEqual({ enqueued: 2, duplicates: 0, dead: 2 })
    expect(await payloadsOf(database, queue)).toEqual([1, 4])
    const letters = await lettersOf(database, queue)
    expect(letters.map(({ payload }) => payload)).toEqual([
      { base64: Buffer.from('1e200000').toString('base64'), bytes: 8 },
      'x'.repeat(100),
    ])
    expect(letters[1]?.reason).toContain('expected at most 50 bytes of JSON in this queue')
    expect(await receiptsOf(database, queue)).toHaveLength(4)
  })

  test('because read throws, is dead with that reason; a redrive delivers its body', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    from.deliver({ id: 'a', payload: { n: 1 } })
    const inbox = sluice.inbox(queue, {
      from,
      read: () => {
        throw new Error('not of ours')
      },
    })
    expect(await inbox.runOnce(ONCE)).toMatchObject({ dead: 1 })
    expect(await lettersOf(database, queue)).toMatchObject([{ reason: 'Error: not of ours', payload: { n: 1 } }])
    await sluice.operate.deadLetters.redrive({ queue })
    const handled: unknown[] = []
    await sluice
      .pipeline(queue)
      .handle(async ({ payload }) => void handled.push(payload))
      .runOnce()
    expect(handled).toEqual([{ n: 1 }])
  })
})

describe('while something is out of reach, an inbox', () => {
  test('a batch is kept while the database is out of reach, and is enqueued in order', async ({
    database,
    sluice,
    queue,
    log,
    from,
  }) => {
    from.deliver(...numbered(20))
    await database.sql('ALTER TABLE sluice.receipt RENAME TO receipt_away')
    const running = sluice.inbox(queue, { from, batchSize: 7, breaker: QUICK }).start()
    try {
      await waitFor(() => log.of('inbox.unavailable').length >= 3, { what: 'three tries' })
    } finally {
      await database.sql('ALTER TABLE sluice.receipt_away RENAME TO receipt')
    }
    await waitFor(() => from.acked.length === 20, { what: 'all acks' })
    await running.drain()
    expect(await payloadsOf(database, queue)).toEqual(range(20))
    const [first, second] = log.of('inbox.unavailable')
    expect(first).toMatchObject({ queue, receiver: 'memory', side: 'database' })
    expect(second?.since).toEqual(first?.since)
    expect(log.of('inbox.available')).toMatchObject([{ queue, side: 'database', since: first?.since }])
  })

  test('connects again when the broker is back, and receives what it missed', async ({
    database,
    sluice,
    queue,
    log,
    from,
  }) => {
    from.reachable = false
    const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
    await waitFor(() => log.of('inbox.unavailable').length >= 2, { what: 'two tries' })
    from.reachable = true
    expect(await log.first('inbox.available')).toMatchObject({ side: 'receiver' })
    from.deliver(...numbered(3))
    await waitFor(() => from.acked.length === 3, { what: 'the acks' })
    const tries = log.of('inbox.unavailable').length
    from.reachable = false
    await waitFor(() => log.of('inbox.unavailable').length > tries, { what: 'the second outage' })
    from.reachable = true
    from.deliver(...numbered(2, 3))
    await waitFor(() => from.acked.length === 5, { what: 'the acks after the second outage' })
    await running.drain()
    expect(await payloadsOf(database, queue)).toEqual(range(5))
  })

  test('says when the cause changes, of the same outage', async ({ sluice, queue, log }) => {
    const errors = [new Error('no route'), new SluiceError('OPTION_INVALID', 'no such queue'), new Error('no leader')]
    const from = new MemoryReceiver()
    const open = from.open.bind(from)
    from.open = async () => {
      const error = errors.shift()
      if (error !== undefined) throw error
      return open()
    }
    const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
    const { since } = await log.first('inbox.available')
    expect(log.of('inbox.unavailable')).toMatchObject([
      { cause: 'outage', error: 'no route', since },
      { cause: 'settings', error: 'no such queue', since },
      { cause: 'outage', error: 'no leader', since },
    ])
    await running.drain()
  })

  test('is not available again by a new connection, if a setting makes each of them useless', async ({
    sluice,
    queue,
    log,
    from,
  }) => {
    let refusals = 3
    from.onAck = () => {
      if (refusals-- > 0) throw new SluiceError('OPTION_INVALID', 'no permission to ack')
    }
    from.deliver(...numbered(1))
    const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
    const { since } = await log.first('inbox.available')
    const said = { cause: 'settings', error: 'no permission to ack', since }
    expect(log.of('inbox.unavailable')).toMatchObject([said, said, said])
    await running.drain()
    expect(from.acked).toHaveLength(1)
  })

  test('is not available again by a new connection, if each of them fails before it has done anything', async ({
    sluice,
    queue,
    log,
    from,
  }) => {
    let failures = 3
    from.onAck = () => {
      if (failures-- > 0) throw new Error('no answer')
    }
    from.deliver(...numbered(1))
    const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
    const { since } = await log.first('inbox.available')
    const said = { cause: 'outage', error: 'no answer', since }
    expect(log.of('inbox.unavailable')).toMatchObject([said, said, said])
    await running.drain()
  })

  test('is available again when a connection that was useless before lasts, also without a message', async ({
    sluice,
    queue,
    log,
  }) => {
    let refusals = 2
    const from = new MemoryReceiver()
    const open = from.open.bind(from)
    from.open = async () => {
      const connection = await open()
      const refused = () => Promise.reject(new SluiceError('OPTION_INVALID', 'no permission to read'))
      return refusals-- > 0 ? { receive: refused, ack: refused, close: () => connection.close() } : connection
    }
    const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
    const { since } = await log.first('inbox.available')
    expect(log.of('inbox.unavailable').map((event) => event.since)).toEqual([since, since])
    await running.drain()
  })

  test('ends a runOnce, and leaves the messages where they are', async ({ sluice, queue, log, from }) => {
    from.deliver(...numbered(1))
    from.reachable = false
    expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toEqual({ enqueued: 0, duplicates: 0, dead: 0 })
    expect(log.of('inbox.unavailable')).toMatchObject([{ error: expect.stringContaining('out of reach') }])
  })

  test('stops at once', async ({ sluice, queue, log, from }) => {
    from.reachable = false
    const running = sluice.inbox(queue, { from, breaker: { delay: '1h', maxDelay: '1h' } }).start()
    await log.first('inbox.unavailable')
    await running.stop()
    await running.ended
  })
})

test('a stop of the Sluice drains an inbox, and wakes a pipeline before that', async ({ database, queue, from }) => {
  const sluice = startTestSluice(database)
  const handled = deferred<unknown>()
  sluice
    .pipeline(queue)
    .handle(async ({ payload }) => handled.resolve(payload))
    .start()
  const running = sluice.inbox(queue, { from }).start()
  from.deliver({ id: 'a', payload: 7 })
  expect(await handled.promise).toBe(7)
  await sluice.stop()
  await running.ended
  expect(from.connections).toBe(0)
})

test('an inbox that cannot start says so', async ({ database, queue, from }) => {
  const sluice = startTestSluice({ url: database.url.replace(/\/([^/?]+)(\?|$)/, '/no_such_database$2') })
  await expect(sluice.inbox(queue, { from }).start().ended).rejects.toMatchObject({ code: 'UNREACHABLE' })
})

test('options that make no sense are refused by name', async ({ sluice, queue, from }) => {
  expect(() => sluice.inbox(queue, { from: {} as never })).toThrow(/inbox\("q\.\d+"\)\.from: expected a receiver/)
  expect(() => sluice.inbox(queue, { from, retention: '1ms' })).toThrow(/retention/)
  expect(() => sluice.inbox(queue, { from, source: '' })).toThrow(/source/)
  expect(() => sluice.inbox(queue, { from, read: 'id' as never })).toThrow(/read: expected a function/)
  expect(() => sluice.inbox(queue, { from, to: from } as never)).toThrow(/to/)
})
