import { sql } from 'kysely'
import pg from 'pg'
import { expect } from 'vitest'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
import { EventLog } from '../../support/event-log.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'

const test = base.extend('table', { scope: 'file' }, async ({ database }) => {
  await database.sql('CREATE TABLE effect (queue text, n integer)')
  return 'effect'
})

/** Where a backslash escapes, the string is a quote, and COMMIT a statement. */
const BEHIND_A_BACKSLASH = String.raw`SELECT '\''; COMMIT; SELECT '\''`

/** Ways to end the batch's transaction, which would commit or lose the effects of others. */
const ATTEMPTS: Readonly<Record<string, (tx: HandlerTransaction) => unknown>> = {
  'a query': (tx) => tx.query('COMMIT'),
  'a query in other words': (tx) => tx.client.query('  end work ;'),
  'a query behind a comment': (tx) => tx.client.query('-- now\n/* and /* nested */ so */ COMMIT'),
  'a query hidden by a nested comment': (tx) => tx.client.query('/* /* */ ; */ COMMIT'),
  'a statement object': (tx) => tx.client.query({ text: 'ROLLBACK' }),
  'a prepared statement': (tx) => tx.client.query({ name: 'sneaky', text: 'COMMIT', values: [] }),
  'a callback': (tx) => new Promise((resolve) => tx.client.query('COMMIT', resolve)),
  'a callback of the statement': (tx) =>
    new Promise((resolve) => tx.client.query({ text: 'COMMIT', callback: resolve } as never)),
  'a query object': (tx) => tx.client.query(new pg.Query('COMMIT')),
  'the last of several statements': (tx) => tx.query("SELECT ';'; SELECT 1; COMMIT"),
  'the first of several statements': (tx) => tx.query('COMMIT; BEGIN'),
  'a query behind a function called begin': (tx) =>
    tx.query(`CREATE FUNCTION public.begin() RETURNS int LANGUAGE sql AS 'SELECT 1'; COMMIT`),
  'a query behind a column called case': (tx) =>
    tx.query('CREATE FUNCTION public.f() RETURNS int BEGIN ATOMIC SELECT 1 AS case; END; COMMIT'),
  'a query that is read otherwise once the one before it is answered': async (tx) => {
    const answered = tx.query('SET standard_conforming_strings = off')
    await tx.query(BEHIND_A_BACKSLASH)
    await answered
  },
  'kysely, raw': (tx) => sql`COMMIT`.execute(tx.kysely()),
  'kysely, a transaction within': (tx) => Reflect.apply(Reflect.get(tx.kysely(), 'transaction'), tx.kysely(), []),
  BEGIN: (tx) => tx.query('BEGIN'),
  'START TRANSACTION': (tx) => tx.query('start  transaction isolation level serializable'),
  'ROLLBACK AND CHAIN': (tx) => tx.query('ROLLBACK AND CHAIN'),
  ABORT: (tx) => tx.query('ABORT'),
  'PREPARE TRANSACTION': (tx) => tx.query(`PREPARE TRANSACTION 'mine'`),
  'DISCARD ALL': (tx) => tx.query('DISCARD ALL'),
  'DEALLOCATE ALL': (tx) => tx.query('deallocate prepare all'),
  'a block of code': (tx) => tx.query('DO $$ BEGIN COMMIT; END $$'),
  'a savepoint that is not there': (tx) => tx.query('ROLLBACK TO SAVEPOINT not_there'),
  'not awaited': (tx) => void tx.query('COMMIT'),
  'release()': (tx) => tx.client.release(),
  'end()': (tx) => Reflect.get(tx.client, 'end')(),
}

test.for(Object.entries(ATTEMPTS))(
  'ending the transaction by %s fails the message, and its siblings commit with it not at all',
  async ([, attempt], { database, sluice, queue, table, log }) => {
    sluice
      .pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
      .handle(async ({ payload }, { tx }) => {
        await tx.query(`INSERT INTO ${table} VALUES ($1, $2)`, [queue, payload])
        if (payload === 2) await attempt(tx)
      })
      .subscribe()
    await put(sluice, queue, [1, 2, 3])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 1 })
    expect(log.of('batch.claimed')).toHaveLength(1)
    expect(await database.sql(`SELECT n FROM ${table} WHERE queue = $1 ORDER BY n`, [queue])).toEqual([
      { n: 1 },
      { n: 3 },
    ])
  },
)

test('refuses it where a backslash escapes in strings, because the database or the handler says so', async ({
  queue,
}) => {
  await using database = await createTestDatabase()
  const name = new URL(database.url).pathname.slice(1)
  await database.sql(`ALTER DATABASE ${name} SET standard_conforming_strings = off; CREATE TABLE effect (n integer)`)
  const sluice = startTestSluice(database)
  const log = new EventLog(sluice.events)
  const handlers: Readonly<Record<string, (tx: HandlerTransaction) => Promise<unknown>>> = {
    'as the database says': (tx) => tx.query(BEHIND_A_BACKSLASH),
    'on for this handler': async (tx) => {
      await tx.query('SET standard_conforming_strings = on')
      await tx.query(String.raw`INSERT INTO effect SELECT length('\'); SELECT 'COMMIT; \'`)
    },
    'off again for the next': (tx) => tx.query(BEHIND_A_BACKSLASH),
    'a string and no statement': (tx) => tx.query(String.raw`SELECT '\'; COMMIT; --'`),
  }
  sluice
    .pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
    .handle(async ({ payload }, { tx }) => {
      await handlers[String(payload)]?.(tx)
    })
    .subscribe()
  await put(sluice, queue, Object.keys(handlers))
  expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 2 })
  expect(log.of('message.failed').map(({ error }) => error)).toEqual(
    Array(2).fill(expect.stringContaining('received COMMIT')),
  )
  expect(await database.sql('SELECT n FROM effect')).toEqual([{ n: 1 }])
})

test('refuses it even if the handler swallows the refusal', async ({ database, sluice, queue, table, log }) => {
  sluice
    .pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
    .handle(async ({ payload }, { tx }) => {
      await tx.query(`INSERT INTO ${table} VALUES ($1, $2)`, [queue, payload])
      await tx.query('COMMIT').catch(() => undefined)
    })
    .subscribe()
  await put(sluice, queue, [1])
  expect(await log.first('message.failed')).toMatchObject({
    error: expect.stringMatching(/^SluiceError: The transaction: .*received COMMIT\. Return to commit/),
  })
  expect(await database.sql(`SELECT n FROM ${table} WHERE queue = $1`, [queue])).toEqual([])
})

test('does not mistake data for control', async ({ sluice, queue, log }) => {
  sluice
    .pipeline(queue)
    .handle(async (_, { tx }) => {
      await tx.query(
        `SELECT 'x; COMMIT', $$; ROLLBACK;$$, $tag$; END $tag$, E'\\'; COMMIT', "end" FROM (SELECT 1 AS "end") t -- ; COMMIT`,
      )
      await tx.query('SELECT CASE WHEN true THEN 1 END; SELECT 1 /* ; COMMIT */')
      await tx.query('SELECT $1::text', ['; COMMIT'])
      await tx.query('CREATE TEMP TABLE commit_log (id integer) ON COMMIT DROP')
    })
    .subscribe()
  await put(sluice, queue, [1])
  expect(await log.first('batch.committed')).toMatchObject({ acked: 1, retried: 0 })
})
