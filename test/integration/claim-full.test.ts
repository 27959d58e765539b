import { describe, expect } from 'vitest'
import { Claimer } from '../../src/claim/claimer.ts'
import { executeOn } from '../../src/connection/open-client.ts'
import { BatchConnection } from '../../src/transaction/batch-connection.ts'
import { keysOf, type Put, put } from '../support/rows/claim-session.ts'
import { openPool } from '../support/servers/pool.ts'
import { test as base } from '../support/test.ts'

/** Whether the first claim of two messages, of a queue with these, says that another claim may find more meanwhile. */
const test = base.extend('hasMore', async ({ database }, { onCleanup }) => {
  const pool = openPool({ connectionString: database.url })
  onCleanup(() => pool.end())
  return async (queue: string, messages: readonly Put[], ordered = false): Promise<boolean> => {
    await put(database, queue, messages)
    const control = { execute: executeOn(database.pool) }
    const claimer = new Claimer({ queue, batchSize: 2, concurrency: 2, ordered }, control)
    const connection = await BatchConnection.acquire(pool)
    connection.begin()
    const { rows, full } = await claimer.take(connection, claimer.send(connection))
    expect(rows).toHaveLength(2)
    await connection.rollback()
    connection.release()
    return full
  }
})

const three = (message: Put) => [message, message, message]

describe('another claim may find more while a full batch is in flight', () => {
  test('of a queue without keys, and of one with keys of two slots', async ({ database, hasMore }) => {
    const { same, other } = await keysOf(database)
    expect(await hasMore('full.unkeyed', three({}))).toBe(true)
    expect(await hasMore('full.two', [...three({ key: same[0] }), ...three({ key: other })])).toBe(true)
  })

  test('of the only slot, if there are messages without a key', async ({ database, hasMore }) => {
    const { same } = await keysOf(database)
    expect(await hasMore('full.mixed', [...three({ key: same[0] }), ...three({})])).toBe(true)
  })

  test('but not of the only slot, whose keys wait for the batch', async ({ database, hasMore }) => {
    const { same } = await keysOf(database)
    expect(await hasMore('full.one', three({ key: same[0] }))).toBe(false)
    expect(await hasMore('full.same', [...three({ key: same[0] }), ...three({ key: same[1] })])).toBe(false)
  })

  test('nor of a queue that is in order as a whole', async ({ hasMore }) => {
    expect(await hasMore('full.whole', three({}), true)).toBe(false)
  })
})
