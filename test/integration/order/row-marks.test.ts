import { expect, onTestFinished } from 'vitest'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/test.ts'

const NUMBER = 'SELECT pg_current_xact_id()::xid::text AS xid'

async function session(database: TestDatabase) {
  const client = await database.pool.connect()
  onTestFinished(() => client.release())
  const query = async (text: string) => (await client.query<{ xid: string }>(text)).rows[0]?.xid ?? ''
  return { query, runs: (xid: string) => runs((text) => client.query(text), xid) }
}

async function runs(query: (text: string) => Promise<unknown>, xid: string): Promise<unknown> {
  const answer = await query(`SELECT sluice_private.in_progress('${xid}'::xid) AS runs`)
  const [row] = Array.isArray(answer) ? answer : (answer as { rows: { runs: boolean }[] }).rows
  return row?.runs
}

test('a transaction and its savepoints run until it ends', async ({ database }) => {
  const holder = await session(database)
  await holder.query('BEGIN')
  await holder.query('CREATE TEMPORARY TABLE written (one integer) ON COMMIT DROP')
  const whole = await holder.query(NUMBER)
  await holder.query('SAVEPOINT a')
  const part = await holder.query('INSERT INTO written VALUES (1) RETURNING xmin::text AS xid')
  expect(part).not.toBe(whole)
  for (const xid of [whole, part]) expect(await runs(database.sql, xid)).toBe(true)
  await holder.query('RELEASE a')
  expect(await runs(database.sql, part)).toBe(true)
  await holder.query('COMMIT')
  for (const xid of [whole, part]) expect(await runs(database.sql, xid)).toBe(false)
})

test('a transaction that began after the snapshot runs too', async ({ database }) => {
  const [looker, holder] = [await session(database), await session(database)]
  await looker.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await looker.query('SELECT')
  await holder.query('BEGIN')
  const xid = await holder.query(NUMBER)
  expect(await looker.runs(xid)).toBe(true)
  await holder.query('ROLLBACK')
  expect(await looker.runs(xid)).toBe(false)
  await looker.query('ROLLBACK')
})

test('a number that no transaction has had yet, as a MultiXact may have, is no lock', async ({ database }) => {
  const [row] = await database.sql<{ xid: string }>(
    `SELECT ((pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1000000) & 4294967295)::text AS xid`,
  )
  expect(await runs(database.sql, row!.xid)).toBe(false)
  for (const xid of ['0', '1', '2']) expect(await runs(database.sql, xid)).toBe(false)
})
