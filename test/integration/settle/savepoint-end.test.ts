import { describe, expect, onTestFinished, test } from 'vitest'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
import { EventLog } from '../../support/event-log.ts'
import { test as countedTest } from '../../support/plans/counted.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

/** A database of the test's own, in which a handler's writes are seen. */
async function start() {
  const database = await createTestDatabase()
  onTestFinished(() => database[Symbol.asyncDispose]())
  await database.sql(`
    CREATE TABLE effect (message text);
    CREATE FUNCTION spoil() RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      -- Its constraint waits to be checked, so it cannot be dropped; and no text of the handler says so.
      CREATE TEMPORARY TABLE spoilt (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED);
      INSERT INTO spoilt VALUES (1), (1);
      DELETE FROM spoilt;
    END $$`)
  const sluice = startTestSluice(database)
  return { database, sluice, log: new EventLog(sluice.events) }
}

const SPOILT = 'pending trigger events'

describe('a handler behind which its savepoint cannot be ended', () => {
  test.for(['goes on', 'fails'])(
    'is not brought back to life by its open savepoint, where the third %s',
    async (third) => {
      const { database, sluice } = await start()
      sluice
        .pipeline('q', { ...LATER, batchSize: 3 })
        .handle(async ({ payload, id }, { tx, enqueue }) => {
          try {
            await tx.query('SAVEPOINT optional')
            await enqueue('next', id)
          } catch {
            await tx.query('ROLLBACK TO SAVEPOINT optional')
          }
          await tx.query('INSERT INTO effect VALUES ($1)', [id])
          if (payload === 'spoil') await tx.query('SELECT spoil()')
          if (payload === 'fails') throw new Error('on purpose')
        })
        .subscribe()
      const ids = await put(sluice, 'q', ['spoil', 'goes on', third])
      const untried = `SELECT FROM sluice.message WHERE queue = 'q' AND attempt = 0`
      await waitFor(async () => (await database.sql(untried)).length === 0, { what: 'all to be tried' })
      const done = ids.slice(1, third === 'fails' ? 2 : 3)
      expect(await database.sql('SELECT message FROM effect ORDER BY message::bigint')).toEqual(
        done.map((message) => ({ message })),
      )
      const enqueued = await database.sql(`SELECT payload FROM sluice.message WHERE queue = 'next' ORDER BY id`)
      expect(enqueued.map(({ payload }) => payload)).toEqual(done)
    },
  )

  test.for<readonly [string, readonly string[]]>([
    ['alone', ['spoil']],
    ['first', ['spoil', 'write', 'write']],
    ['before one that swallows the error', ['write', 'spoil', 'swallow', 'write']],
    ['before one that does not use tx', ['write', 'spoil', 'idle']],
    ['before one that fails', ['write', 'spoil', 'fail', 'write']],
    ['last', ['write', 'write', 'spoil']],
    ['twice', ['spoil', 'write', 'spoil', 'write']],
  ])('fails its own message, and the others are handled once: %s', async ([, payloads]) => {
    const { database, sluice, log } = await start()
    sluice
      .pipeline('q', { ...LATER, batchSize: payloads.length })
      .handle(({ payload, id }, { tx }) => run(String(payload), id, tx))
      .subscribe()
    const ids = await put(sluice, 'q', payloads)
    await waitFor(async () => (await left(database)).every(({ attempt }) => attempt > 0), { what: 'all to be tried' })
    const failing = ids.filter((_, at) => payloads[at] === 'spoil' || payloads[at] === 'fail')
    expect(await left(database)).toEqual(
      failing.map((id) => ({
        id,
        attempt: 1,
        last_error: expect.stringContaining(payloads[ids.indexOf(id)] === 'spoil' ? SPOILT : 'on purpose'),
      })),
    )
    const writing = ids.filter((_, at) => payloads[at] === 'write' || payloads[at] === 'swallow')
    expect(await database.sql('SELECT message FROM effect ORDER BY message::bigint')).toEqual(
      writing.map((message) => ({ message })),
    )
    expect(
      log
        .of('message.failed')
        .map(({ id }) => id)
        .sort(),
    ).toEqual([...failing].sort())
  })

  test('fails a whole batch of a batch handler, and then its own message alone', async () => {
    const { database, sluice } = await start()
    const payloads = ['write', 'spoil', 'write']
    const ids = await put(sluice, 'q', payloads)
    sluice
      .pipeline('q', { ...LATER, batchSize: 3 })
      .handleBatch(async (messages, { tx }) => {
        for (const { payload, id } of messages) await run(String(payload), id, tx)
      })
      .subscribe()
    await waitFor(async () => (await left(database)).every(({ attempt }) => attempt > 0), { what: 'all to be tried' })
    expect(await left(database)).toMatchObject([
      { id: ids[1], attempt: 1, last_error: expect.stringContaining(SPOILT) },
    ])
    expect(await database.sql('SELECT message FROM effect ORDER BY message::bigint')).toEqual([
      { message: ids[0] },
      { message: ids[2] },
    ])
  })
})

describe('a constraint that can be deferred and that is made while a worker runs', () => {
  const MADE = `
    CREATE TABLE parent (id integer PRIMARY KEY);
    CREATE TABLE child (parent integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`

  test('fails the message that violates it, and no other', async () => {
    const { database, sluice } = await start()
    sluice
      .pipeline('q', { ...LATER, batchSize: 3 })
      .handle(async ({ payload, id }, { tx }) => {
        if (payload === 'violate') await tx.query('INSERT INTO child VALUES (1)')
        else await run(String(payload), id, tx)
      })
      .subscribe()
    await put(sluice, 'q', ['write'])
    await waitFor(async () => (await left(database)).length === 0, { what: 'the first' })
    await database.sql(MADE)
    const ids = await put(sluice, 'q', ['write', 'violate', 'write'])
    await waitFor(async () => (await left(database)).every(({ attempt }) => attempt > 0), { what: 'all to be tried' })
    expect(await left(database)).toMatchObject([
      { id: ids[1], attempt: 1, last_error: expect.stringContaining('violates foreign key') },
    ])
    expect(await database.sql('SELECT count(*)::integer AS n FROM effect')).toEqual([{ n: 3 }])
  })

  test('by a handler is checked behind its own message, and behind those after it', async () => {
    const { database, sluice, log } = await start()
    const ids = await put(sluice, 'q', ['make', 'violate', 'write'])
    const settled = await sluice
      .pipeline('q', { ...LATER, batchSize: 3 })
      .handle(async ({ payload, id }, { tx }) => {
        if (payload === 'make') await tx.query(MADE)
        else if (payload === 'violate') await tx.query('INSERT INTO child VALUES (1)')
        else await run(String(payload), id, tx)
      })
      .runOnce()
    expect(settled.map(({ outcome }) => outcome.kind)).toEqual(['ack', 'retryLater', 'ack'])
    expect(log.of('batch.released')).toEqual([])
    expect(await left(database)).toMatchObject([{ id: ids[1], attempt: 1 }])
  })
})

test.for<readonly [string, string, readonly string[]]>([
  ['DEFERRABLE INITIALLY DEFERRED', 'SET CONSTRAINTS ALL IMMEDIATE', ['ack', 'ack', 'retryLater']],
  ['DEFERRABLE', 'SET CONSTRAINTS ALL DEFERRED', ['ack', 'retryLater', 'retryLater']],
])('constraints that all are %s are so again behind %s', async ([declared, set, outcomes]) => {
  const { database, sluice, log } = await start()
  await database.sql(`
    CREATE TABLE parent (id integer PRIMARY KEY);
    CREATE TABLE child (parent integer REFERENCES parent ${declared})`)
  await put(sluice, 'q', ['set', 'child first', 'child alone'])
  const settled = await sluice
    .pipeline('q', { ...LATER, batchSize: 3 })
    .handle(async ({ payload }, { tx }) => {
      if (payload === 'set') return void (await tx.query(set))
      await tx.query('INSERT INTO child VALUES (1)')
      if (payload === 'child first') await tx.query('INSERT INTO parent VALUES (1)')
      else await tx.query('INSERT INTO child VALUES (2)')
    })
    .runOnce()
  expect(settled.map(({ outcome }) => outcome.kind)).toEqual(outcomes)
  expect(log.of('batch.released')).toEqual([])
})

countedTest(
  'whether there are such constraints is asked again when the answer is five seconds old',
  async ({ counted, database, queue }) => {
    const { sluice } = counted
    await database.sql('CREATE TABLE IF NOT EXISTS effect (n bigint)')
    const flushes = async () => {
      await put(sluice, queue, [1, 2])
      await counted.clear()
      await sluice
        .pipeline(queue, { batchSize: 2 })
        .handle(async (_, { tx }) => void (await tx.query('INSERT INTO effect VALUES (1)')))
        .runOnce()
      return (await counted.flushes('sluice')).flatMap((flush) => flush.filter((sent) => sent === 'deferrable'))
    }
    expect(await flushes()).toEqual([])
    await counted.pass(4_900)
    expect(await flushes()).toEqual([])
    await counted.pass(200)
    expect(await flushes()).toEqual(['deferrable'])
    expect(await flushes()).toEqual([])
  },
)

countedTest(
  'a savepoint is ended while a handler that does not use tx is at work',
  async ({ counted, database, queue }) => {
    await database.sql('CREATE TABLE IF NOT EXISTS effect (n bigint)')
    await put(counted.sluice, queue, [0, 1])
    await counted.clear()
    const pipeline = counted.sluice.pipeline(queue, { batchSize: 2 })
    await pipeline
      .handle(async ({ payload }, { tx }) => {
        if (payload === 0) await tx.query('INSERT INTO effect VALUES (1)')
        else await counted.wire.quiet()
      })
      .runOnce()
    const ends = (await counted.flushes('sluice')).filter((flush) => flush.some((sent) => sent.endsWith('RELEASE')))
    expect(ends).toEqual([[expect.stringMatching(/^RESET; .*RELEASE$/)]])
  },
)

async function run(what: string, id: string, tx: HandlerTransaction): Promise<void> {
  if (what === 'idle') return
  const written = tx.query('INSERT INTO effect VALUES ($1)', [id])
  if (what === 'swallow') await written.catch(() => undefined)
  else await written
  if (what === 'spoil') await tx.query('SELECT spoil()')
  if (what === 'fail') throw new Error('on purpose')
}

interface Left {
  readonly id: string
  readonly attempt: number
  readonly last_error: string | null
}

function left({ sql }: TestDatabase): Promise<Left[]> {
  return sql<Left & Record<string, unknown>>('SELECT id, attempt, last_error FROM sluice.message ORDER BY id')
}
