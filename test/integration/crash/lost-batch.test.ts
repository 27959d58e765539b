import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import type { HandlerContext } from '../../../src/index.ts'
import type { PipelineOptions } from '../../../src/plan/options.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { EventLog } from '../../support/event-log.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('effects', { auto: true }, ({ database }) =>
  database.sql('CREATE TABLE IF NOT EXISTS lost_effect (queue text, id bigint)'),
)

type Harm = (context: HandlerContext, database: TestDatabase) => Promise<unknown>

/** What a handler can do that takes its batch's transaction away, whatever its siblings do. */
const HARMS: Readonly<Record<string, Harm>> = {
  'ends its own backend': ({ tx }) => tx.query('SELECT pg_terminate_backend(pg_backend_pid())'),
  'is ended by an administrator while it waits': async ({ tx, signal }, database) => {
    const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    await database.sql('SELECT pg_terminate_backend($1)', [rows[0]?.pid])
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  },
  'violates a deferred constraint': ({ tx }) => tx.query('INSERT INTO fails_at_commit VALUES (1)'),
  'breaks its connection without a word': async ({ tx, signal }) => {
    const { client } = tx
    client.connection.stream.destroy()
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  },
}

describe('a message that always loses its transaction', () => {
  for (const [harm, act] of Object.entries(HARMS)) {
    for (const [shape, options] of [
      ['in a batch of twenty', { batchSize: 20 }],
      ['one message per transaction', { batchSize: 1, concurrency: 2 }],
    ] as const) {
      test(`P2: ${harm}, ${shape}: the others are handled once, and it dies of its attempts`, async ({
        database,
        queue,
        sluice,
      }) => {
        await failsAtCommit(database)
        const payloads = Array.from({ length: 20 }, (_, at) => at)
        const ids = await put(sluice, queue, payloads)
        const bad = ids[7]!
        const attempts = consume(sluice, queue, options, database, (payload) => payload === 7, act)

        expect(await deadLetters(database, queue)).toMatchObject([{ id: bad, attempt: 3 }])
        await waitFor(async () => (await waiting(database, queue)) === 0, { what: 'the others' })
        expect(attempts[0]).toBe(1)
        expect(attempts.length).toBeGreaterThanOrEqual(3)
        const innocent = ids.filter((id) => id !== bad)
        expect(await effects(database, queue)).toEqual(innocent)
      })
    }
  }

  test('P2: a try that several slots lose one after another counts once', async ({ database, queue, sluice, log }) => {
    const payloads = Array.from({ length: 40 }, (_, at) => at)
    await put(sluice, queue, payloads)
    const tries: number[] = []
    sluice
      .pipeline(queue, { batchSize: 1, concurrency: 4, maxAttempts: 2, retry: { kind: 'fixed', delay: 1 } })
      .handle(async ({ payload }, context) => {
        if (Number(payload) % 10 !== 5) return
        tries.push(context.attempt)
        if (context.attempt === 1) await HARMS['ends its own backend']!(context, database)
      })
      .subscribe()
    await waitFor(async () => (await waiting(database, queue)) === 0, { what: 'all' })
    expect(log.of('message.dead')).toEqual([])
    expect(tries.filter((attempt) => attempt === 2)).toHaveLength(4)
    expect(log.of('message.failed').map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1])
  })

  test('P2: the others need not wait for its backoff', async ({ database, queue, sluice }) => {
    await put(
      sluice,
      queue,
      Array.from({ length: 20 }, (_, at) => at),
    )
    const options = { batchSize: 20, retry: { kind: 'fixed', delay: '1h' } } as const
    consume(sluice, queue, options, database, (payload) => payload === 0, HARMS['ends its own backend']!)
    await waitFor(async () => (await effects(database, queue)).length === 19, { what: 'nineteen effects' })
    expect(
      await database.sql('SELECT attempt, state, last_error FROM sluice.messages WHERE queue = $1', [queue]),
    ).toEqual([{ attempt: 1, state: 'retrying', last_error: expect.stringContaining('terminating connection') }])
  })

  test('P2: with an ordering key it holds its own key, and no other', async ({ database, queue, sluice }) => {
    const ofKey = async (orderingKey: string, payloads: readonly number[]) =>
      put(sluice, queue, payloads, { orderingKey })
    await ofKey('bad', [0, 1, 2])
    await ofKey('good', [3, 4, 5])
    const options = { batchSize: 20, retry: { kind: 'fixed', delay: '1h' } } as const
    consume(sluice, queue, options, database, (payload) => payload === 0, HARMS['ends its own backend']!)
    await waitFor(async () => (await effects(database, queue)).length === 3, { what: 'three effects' })
    expect(await database.sql('SELECT payload FROM sluice.message WHERE queue = $1 ORDER BY id', [queue])).toEqual([
      { payload: 0 },
      { payload: 1 },
      { payload: 2 },
    ])
  })

  test('P2: a batch handler that loses a message loses it alone', async ({ database, queue, sluice }) => {
    const ids = await put(
      sluice,
      queue,
      Array.from({ length: 10 }, (_, at) => at),
    )
    sluice
      .pipeline(queue, { batchSize: 10, maxAttempts: 2, retry: { kind: 'fixed', delay: 1 } })
      .handleBatch(async (messages, { tx }) => {
        for (const { id } of messages) await tx.query('INSERT INTO lost_effect VALUES ($1, $2)', [queue, id])
        const isBad = messages.some(({ payload }) => payload === 4)
        if (isBad) await tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
      })
      .subscribe()
    expect(await deadLetters(database, queue)).toMatchObject([{ id: ids[4], attempt: 2 }])
    await waitFor(async () => (await waiting(database, queue)) === 0, { what: 'the others' })
    expect(await effects(database, queue)).toEqual(ids.filter((_, at) => at !== 4))
  })

  test('runOnce goes on with the others, and tells of its failed attempt', async ({ database, queue, sluice }) => {
    const ids = await put(sluice, queue, [0, 1, 2])
    const pipeline = sluice.pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
    const settled = await pipeline
      .handle(async ({ payload }, context) => {
        if (payload === 1) await HARMS['ends its own backend']!(context, database)
      })
      .runOnce()
    const outcomes = settled.map(({ message, outcome }) => [message.id, outcome.kind])
    expect(new Map(outcomes as [string, string][])).toEqual(
      new Map([
        [ids[0], 'ack'],
        [ids[1], 'retryLater'],
        [ids[2], 'ack'],
      ]),
    )
  })
})

test('a lost batch is reported once', async ({ database, queue, sluice, log }) => {
  await put(sluice, queue, [0])
  consume(sluice, queue, {}, database, () => true, HARMS['ends its own backend']!)
  await log.first('message.dead')
  expect([log.of('batch.released').length, log.of('claim.failed').length]).toEqual([3, 0])
})

test('is not held against a message if the control connection was lost as well', async ({ database, queue }) => {
  const sluice = startTestSluice(database)
  const log = new EventLog(sluice.events)
  await put(sluice, queue, [0])
  const attempts: number[] = []
  const admin = new pg.Client(database.url)
  await admin.connect()
  onTestFinished(() => admin.end())
  sluice
    .pipeline(queue)
    .handle(async (_, { signal, attempt, tx }) => {
      attempts.push(attempt)
      if (attempts.length > 2) return
      await tx.query('SELECT 1')
      const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      await admin.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name IN ('sluice control', 'sluice')
         ORDER BY application_name DESC`,
      )
      await aborted
    })
    .subscribe()
  await log.first('batch.committed')
  expect(attempts).toEqual([1, 1, 1])
})

function consume(
  sluice: Sluice,
  queue: string,
  options: PipelineOptions,
  database: TestDatabase,
  isBad: (payload: unknown) => boolean,
  act: Harm,
): readonly number[] {
  const attempts: number[] = []
  sluice
    .pipeline(queue, { maxAttempts: 3, retry: { kind: 'fixed', delay: 1 }, ...options })
    .handle(async (message, context) => {
      await context.tx.query('INSERT INTO lost_effect VALUES ($1, $2)', [queue, message.id])
      if (!isBad(message.payload)) return
      attempts.push(context.attempt)
      await act(context, database)
    })
    .subscribe()
  return attempts
}

async function failsAtCommit(database: TestDatabase): Promise<void> {
  await database.sql(`
    CREATE TABLE IF NOT EXISTS fails_at_commit (id integer);
    CREATE OR REPLACE FUNCTION fail_at_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''deferred''; END';
    DROP TRIGGER IF EXISTS fails ON fails_at_commit;
    CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON fails_at_commit DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION fail_at_commit()`)
}

function waiting(database: TestDatabase, queue: string): Promise<number> {
  return count(database, 'SELECT count(*)::integer AS n FROM sluice.message WHERE queue = $1', queue)
}

async function count(database: TestDatabase, text: string, queue: string): Promise<number> {
  const [row] = await database.sql<{ n: number }>(text, [queue])
  return row?.n ?? 0
}

async function effects(database: TestDatabase, queue: string): Promise<string[]> {
  const rows = await database.sql<{ id: string }>(
    'SELECT e.id::text FROM lost_effect e WHERE queue = $1 ORDER BY e.id',
    [queue],
  )
  return rows.map(({ id }) => id)
}

function deadLetters(database: TestDatabase, queue: string) {
  const read = async () => {
    const rows = await database.sql('SELECT id, attempt, reason FROM sluice.dead_letters WHERE queue = $1', [queue])
    return rows.length > 0 && rows
  }
  return waitFor(read, { what: 'the dead letter' })
}
