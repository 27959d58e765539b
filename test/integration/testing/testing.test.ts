import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { z } from 'zod'
import { ack, createSluice, deadLetter, type Sluice } from '../../../src/index.ts'
import { appendedIn, deliver, enqueuedIn, runDue } from '../../../src/testing.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/test.ts'

const queues = { signups: { schema: z.object({ email: z.string(), source: z.string().default('web') }) }, audit: {} }

function open(database: TestDatabase): Sluice<typeof queues> {
  const sluice = createSluice({ connection: database.url, queues })
  onTestFinished(() => sluice.stop())
  return sluice
}

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client(database.url)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

describe('runDue', () => {
  test('handles what is due, and what handlers enqueue for one another', async ({ database }) => {
    const sluice = open(database)
    await sluice.enqueue(sluice.ownTransaction, 'signups', { email: 'ada@example.com' })
    await sluice.enqueue(sluice.ownTransaction, 'signups', { email: 'later@example.com' }, { delay: '1h' })
    const seen: unknown[] = []
    const signups = sluice.pipeline('signups').handle(async (message, { enqueue }) => {
      await enqueue('audit', { email: message.payload.email })
    })
    const audit = sluice.pipeline('audit').handle((message) => {
      seen.push(message.payload)
    })

    const settled = await runDue([audit, signups])

    expect(settled.map(({ message, outcome }) => [message.queue, outcome.kind])).toEqual([
      ['signups', 'ack'],
      ['audit', 'ack'],
    ])
    expect(seen).toEqual([{ email: 'ada@example.com' }])
    expect(await runDue([audit, signups])).toEqual([])
  })

  test('tells how a failed message will be tried again', async ({ database }) => {
    const sluice = createSluice({ connection: database.url })
    onTestFinished(() => sluice.stop())
    await sluice.enqueue(sluice.ownTransaction, 'failing', {})
    const failing = sluice.pipeline('failing', { retry: { kind: 'fixed', delay: '5m' } }).handle(() => {
      throw new Error('no luck')
    })

    const [settled] = await runDue(failing)

    expect(settled?.outcome).toEqual({ kind: 'retryLater', afterMs: 300_000, error: 'Error: no luck' })
  })
})

describe('deliver', () => {
  test('hands payloads to the handler as the queue would: through JSON and the schema', async ({ database }) => {
    const sluice = open(database)
    const seen: unknown[] = []

    const outcomes = await deliver(
      sluice,
      'signups',
      (message) => {
        seen.push(message.payload)
      },
      [{ payload: { email: 'ada@example.com' } }],
    )

    expect(outcomes).toEqual([{ kind: 'ack' }])
    expect(seen).toEqual([{ email: 'ada@example.com', source: 'web' }])
    expect(
      await database.sql(
        `SELECT count(*)::integer AS n FROM sluice.message WHERE queue = 'signups' AND due_at < now()`,
      ),
    ).toEqual([{ n: 0 }])
  })

  test('rolls everything back when a handler throws, and only its own writes when it gives up', async ({
    database,
  }) => {
    const sluice = open(database)
    await database.sql('CREATE TABLE note (text text)')
    const messages = [{ payload: { email: 'one' } }, { payload: { email: 'two' } }]

    const outcomes = await deliver(
      sluice,
      'signups',
      async (message, { tx }) => {
        await tx.query('INSERT INTO note VALUES ($1)', [message.payload.email])
        return message.payload.email === 'two' ? deadLetter('no') : undefined
      },
      messages,
    )
    const failed = deliver(
      sluice,
      'signups',
      async (message, { tx }) => {
        await tx.query('INSERT INTO note VALUES ($1)', [`again ${message.payload.email}`])
        if (message.payload.email === 'two') throw new Error('stop')
      },
      messages,
    )

    await expect(failed).rejects.toThrow('stop')
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(['ack', 'deadLetter'])
    expect(await database.sql('SELECT text FROM note')).toEqual([{ text: 'one' }])
  })

  test('waits for what the handler did not await, as a pipeline does', async ({ database }) => {
    const sluice = open(database)
    await database.sql('CREATE TABLE unawaited (text text)')
    const message = { payload: { email: 'ada@example.com' } }
    await deliver(
      sluice,
      'signups',
      (_, { tx, enqueue }) => {
        void enqueue('audit', { n: 1 }).then(() => tx.query(`INSERT INTO unawaited VALUES ('after the enqueue')`))
      },
      [message],
    )
    expect(await database.sql('SELECT text FROM unawaited')).toEqual([{ text: 'after the enqueue' }])
    expect(
      await database.sql(`SELECT payload FROM sluice.message WHERE queue = 'audit' AND payload @> '{"n": 1}'`),
    ).toHaveLength(1)
  })
})

describe('deliver in leased mode', () => {
  const LEASED = { mode: 'leased' } as const

  test('has the message in the queue under a lease until its handler has ended, and commits its transaction()', async ({
    database,
  }) => {
    const sluice = open(database)
    await database.sql('CREATE TABLE leased_note (text text)')
    const seen: unknown[] = []

    const outcomes = await deliver(
      sluice,
      'signups',
      async ({ id, payload, attempt }, { idempotencyKey, leaseUntil, extend, transaction }) => {
        const others = await sluice
          .pipeline('signups')
          .handle(() => undefined)
          .runOnce()
        await extend()
        const inFlight = await sluice.operate.messages.list({ queue: 'signups', state: 'in_flight' })
        seen.push([
          inFlight.messages.map((message) => message.id),
          others.length,
          attempt,
          idempotencyKey === `signups/${id}`,
        ])
        expect(leaseUntil.getTime()).toBeGreaterThan(Date.now())
        await transaction(async (tx) => {
          await tx.query('INSERT INTO leased_note VALUES ($1)', [payload.source])
          await sluice.enqueue(tx, 'audit', { of: id }, { delay: '1h' })
        })
        seen.push(id)
      },
      [{ payload: { email: 'ada@example.com' }, orderingKey: 'ada' }],
      LEASED,
    )

    expect(outcomes).toEqual([{ kind: 'ack' }])
    const [, delivered] = seen
    expect(seen).toEqual([[[delivered], 0, 1, true], delivered])
    expect(await database.sql('SELECT text FROM leased_note')).toEqual([{ text: 'web' }])
    expect(await database.sql('SELECT FROM sluice.message WHERE id = $1', [delivered])).toEqual([])
    expect(await database.sql(`SELECT FROM sluice.message WHERE payload = $1`, [{ of: delivered }])).toHaveLength(1)
  })

  test('returns the outcomes, and leaves no message behind', async ({ database }) => {
    const sluice = createSluice({ connection: database.url })
    onTestFinished(() => sluice.stop())
    const outcomes = await deliver(
      sluice,
      'outcomes',
      async ({ payload }, { transaction }) => {
        if (payload === 1) return deadLetter('no')
        return transaction(() => undefined)
      },
      [{ payload: 1 }, { payload: 2 }],
      LEASED,
    )
    expect(outcomes).toMatchObject([{ kind: 'deadLetter', reason: 'no' }, { kind: 'ack' }])
    expect(await database.sql(`SELECT FROM sluice.messages WHERE queue = 'outcomes'`)).toEqual([])
    expect(await database.sql(`SELECT FROM sluice.dead_letters WHERE queue = 'outcomes'`)).toEqual([])
  })

  test('throws what the handler throws, of which transaction() then keeps nothing', async ({ database }) => {
    const sluice = createSluice({ connection: database.url })
    onTestFinished(() => sluice.stop())
    await database.sql('CREATE TABLE undone (n integer)')
    const fails = deliver(
      sluice,
      'throwing',
      (_, { transaction }) =>
        transaction(async (tx) => {
          await tx.query('INSERT INTO undone VALUES (1)')
          throw new RangeError('stop')
        }),
      [{ payload: 1 }],
      LEASED,
    )
    await expect(fails).rejects.toThrow(new RangeError('stop'))
    expect(await database.sql('SELECT FROM undone')).toEqual([])
    expect(await database.sql(`SELECT FROM sluice.messages WHERE queue = 'throwing'`)).toEqual([])
  })

  test('throws what the handler throws after its transaction(), of which all stays', async ({ database }) => {
    const sluice = createSluice({ connection: database.url, log: false })
    onTestFinished(() => sluice.stop())
    await database.sql('CREATE TABLE kept (n integer)')
    const fails = deliver(
      sluice,
      'throwing.late',
      async (_, { transaction }) => {
        await transaction((tx) => tx.query('INSERT INTO kept VALUES (1)'))
        throw new RangeError('too late')
      },
      [{ payload: 1 }],
      LEASED,
    )
    await expect(fails).rejects.toThrow(new RangeError('too late'))
    expect(await database.sql('SELECT n FROM kept')).toEqual([{ n: 1 }])
    expect(await database.sql(`SELECT FROM sluice.messages WHERE queue = 'throwing.late'`)).toEqual([])
  })

  test('aborts a handler whose time is up', async ({ database }) => {
    const sluice = createSluice({ connection: database.url })
    onTestFinished(() => sluice.stop())
    const aborted = Promise.withResolvers<unknown>()
    const late = deliver(
      sluice,
      'late',
      async (_, { signal }) => {
        signal.addEventListener('abort', () => aborted.resolve(signal.reason))
        await new Promise(() => undefined)
      },
      [{ payload: 1 }],
      { ...LEASED, timeout: '100ms' },
    )
    await expect(late).rejects.toMatchObject({ code: 'HANDLER_TIMEOUT' })
    expect(await aborted.promise).toMatchObject({ code: 'HANDLER_TIMEOUT' })
    expect(await database.sql(`SELECT FROM sluice.messages WHERE queue = 'late'`)).toEqual([])
  })

  test.for(['before transaction()', 'with no transaction()'])(
    'throws LEASE_LOST when somebody else has the message, %s',
    async (when, { database }) => {
      const sluice = createSluice({ connection: database.url })
      onTestFinished(() => sluice.stop())
      const lost = deliver(
        sluice,
        'lost',
        async ({ id }, { transaction }) => {
          await database.sql('UPDATE sluice.message SET lease = lease + 1 WHERE id = $1', [id])
          if (when === 'before transaction()') await transaction(() => undefined)
        },
        [{ payload: 1 }],
        LEASED,
      )
      await expect(lost).rejects.toMatchObject({ code: 'LEASE_LOST' })
      expect(await database.sql(`DELETE FROM sluice.message WHERE queue = 'lost' RETURNING payload`)).toEqual([
        { payload: 1 },
      ])
    },
  )

  test('refuses options that are not of leased mode', async ({ database }) => {
    const sluice = createSluice({ connection: database.url })
    const wrong = (options: object) => deliver(sluice, 'q', () => undefined, [], options as typeof LEASED)
    await expect(wrong({ mode: 'transactional' })).rejects.toThrow(/^deliver\.mode: expected 'leased'/)
    await expect(wrong({ ...LEASED, lease: '1ms' })).rejects.toThrow(/^deliver\.lease: expected/)
    await expect(wrong({ ...LEASED, concurrency: 2 })).rejects.toThrow(/concurrency/)
  })
})

describe('enqueuedIn', () => {
  test('lists what the open transaction has enqueued, savepoints included, and nothing else', async ({ database }) => {
    const sluice = open(database)
    await sluice.enqueue(sluice.ownTransaction, 'audit', { before: true }, { delay: '1h' })
    const client = await connect(database)
    await client.query('BEGIN')
    await sluice.enqueue(client, 'audit', { n: 1 }, { type: 'Audit.Opened', delay: '5m' })
    await client.query('SAVEPOINT part')
    await sluice.enqueue(client, 'audit', { n: 2 })
    await client.query('RELEASE SAVEPOINT part')
    await client.query('SAVEPOINT undone')
    await sluice.enqueue(client, 'audit', { n: 3 })
    await client.query('ROLLBACK TO SAVEPOINT undone')

    const enqueued = await enqueuedIn(client)

    expect(enqueued).toMatchObject([
      { queue: 'audit', type: 'Audit.Opened', payload: { n: 1 } },
      { queue: 'audit', type: null, payload: { n: 2 }, delayMs: 0 },
    ])
    expect(enqueued[0]?.delayMs).toBeLessThanOrEqual(300_000)
    expect(enqueued[0]?.delayMs).toBeGreaterThan(200_000)
    await client.query('ROLLBACK')
  })

  test('says what each message was given', async ({ database }) => {
    const sluice = createSluice({ connection: database.url })
    onTestFinished(() => sluice.stop())
    const client = await connect(database)
    await client.query('BEGIN')
    const given = { delay: '500ms', ttl: '1h', retryPolicy: 'slowly', lease: '2m' } as const
    await sluice.enqueue(client, 'given', 1, { ...given, dedupe: { key: 'K', onDuplicate: 'debounce' } })
    await sluice.enqueue(client, 'given', 2, { ...given, tenant: 'ada' })
    await sluice.enqueueMany(client, 'given', [
      { payload: 3, ...given },
      { payload: 4, tenant: 'ada' },
    ])
    const all = { ttlMs: 3_600_000, retryPolicy: 'slowly', leaseMs: 120_000 }
    const none = { ttlMs: null, retryPolicy: null, leaseMs: null }
    const enqueued = await enqueuedIn(client)
    expect(enqueued).toMatchObject([
      { payload: 1, ...all, tenant: null, dedupeKey: 'K' },
      { payload: 2, ...all, tenant: 'ada', dedupeKey: null },
      { payload: 3, ...all, tenant: null, dedupeKey: null },
      { payload: 4, ...none, tenant: 'ada', dedupeKey: null },
    ])
    for (const { payload, delayMs } of enqueued) {
      expect(delayMs).toBeLessThanOrEqual(payload === 4 ? 0 : 500)
      expect(delayMs).toBeGreaterThan(payload === 4 ? -1 : 0)
    }
    await client.query('ROLLBACK')
  })
})

describe('appendedIn', () => {
  test('lists what the open transaction has appended, savepoints included, and nothing else', async ({ database }) => {
    const sluice = createSluice({ connection: database.url })
    onTestFinished(() => sluice.stop())
    for (const stream of ['orders', 'refunds']) await sluice.streams.set(stream)
    await sluice.append(sluice.ownTransaction, 'orders', { before: true })
    const client = await connect(database)
    await client.query('BEGIN')
    const first = await sluice.append(client, 'orders', { n: 1 }, { type: 'order.paid', orderingKey: 'ada' })
    await client.query('SAVEPOINT part')
    await sluice.append(client, 'refunds', { n: 2 }, { headers: { trace: 'x' } })
    await client.query('RELEASE SAVEPOINT part')
    await client.query('SAVEPOINT undone')
    await sluice.append(client, 'orders', { n: 3 })
    await client.query('ROLLBACK TO SAVEPOINT undone')
    const last = await sluice.append(client, 'orders', { n: 4 })

    expect(await appendedIn(client)).toEqual([
      { ...PLAIN, stream: 'orders', position: first, type: 'order.paid', payload: { n: 1 }, orderingKey: 'ada' },
      { ...PLAIN, stream: 'orders', position: last, payload: { n: 4 } },
      { ...PLAIN, stream: 'refunds', position: 1, payload: { n: 2 }, headers: { trace: 'x' } },
    ])
    await client.query('ROLLBACK')
  })

  test("is followed by the group's pipeline, which handles what was committed", async ({ database }) => {
    const sluice = createSluice({ connection: database.url })
    onTestFinished(() => sluice.stop())
    await sluice.streams.set('shipments')
    await sluice.groups.set('shipments', 'labels', { from: 'start' })
    await sluice.appendMany(sluice.ownTransaction, 'shipments', [{ payload: { id: 7 } }, { payload: { id: 8 } }])
    const labels = sluice
      .pipeline('shipments', { group: 'labels' })
      .handle(({ position, stream }) => (position === 2 ? deadLetter(`no label in ${stream}`) : ack()))
    const [printed, refused] = await runDue(labels)
    expect(printed).toMatchObject({ message: { id: 'shipments/1' }, outcome: { kind: 'ack' } })
    expect(refused).toMatchObject({ message: { id: 'shipments/2' }, outcome: { kind: 'deadLetter' } })
  })
})

const PLAIN = { type: null, schemaVersion: 1, headers: {}, orderingKey: null } as const
