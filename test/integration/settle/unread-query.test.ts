import pg from 'pg'
import { expect, vi } from 'vitest'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { openPool } from '../../support/servers/pool.ts'
import { test } from '../../support/sluice.ts'

test('the driver makes no results for what nothing waits for', async ({ database }) => {
  const pool = openPool({ connectionString: database.url, pipeline: true })
  const connection = await BatchConnection.acquire(pool)
  const read = (['handleCommandComplete', 'handleDataRow'] as const).map((name) =>
    vi.spyOn(pg.Query.prototype as unknown as Query, name),
  )
  const counts = () => read.map(({ mock }) => mock.calls.length)
  try {
    connection.begin()
    connection.sendSoon('SELECT 1; SELECT 2')
    connection.savepoint()
    expect((await connection.client.query('SELECT 3 AS three')).rows).toEqual([{ three: 3 }])
    expect(counts()).toEqual([1, 1])
    expect(connection.waitsSinceMs).toBeUndefined()
  } finally {
    for (const spy of read) spy.mockRestore()
    await connection.abandon()
    connection.release()
    await pool.end()
  }
})

test('an answer counts once where a library makes a promise of it, and an error is the cause of the next', async ({
  database,
}) => {
  const pool = openPool({ connectionString: database.url, pipeline: true })
  const connection = await BatchConnection.acquire(pool)
  const { client } = connection
  const { query } = client
  try {
    Reflect.set(client, 'query', async (...args: unknown[]) => Reflect.apply(query, client, args))
    connection.begin()
    connection.sendSoon('SELECT 1 / 0')
    await expect(connection.execute({ name: 'one', text: 'SELECT 1' }, [])).rejects.toThrow('division by zero')
    connection.sendSoon('ROLLBACK')
    const sent = connection.execute({ name: 'one as text', text: 'SELECT 1::text AS one' }, [])
    expect(connection.waitsSinceMs).toBeDefined()
    expect(await sent).toEqual([{ one: '1' }])
    expect(connection.waitsSinceMs).toBeUndefined()
  } finally {
    Reflect.set(client, 'query', query)
    await connection.abandon()
    connection.release()
    await pool.end()
  }
})

type Query = Record<'handleCommandComplete' | 'handleDataRow', (...args: unknown[]) => void>
