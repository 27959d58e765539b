import { Socket } from 'node:net'
import { expect } from 'vitest'
import { openClient } from '../../../src/connection/open-client.ts'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { openPool } from '../../support/servers/pool.ts'
import { test } from '../../support/sluice.ts'

test('a connection that is given up before it is opened is not opened', async ({ database }) => {
  let streams = 0
  const stream = () => {
    streams += 1
    return new Socket()
  }
  const opened = openClient({ connectionString: database.url, stream }, AbortSignal.abort())
  await expect(opened).rejects.toMatchObject({ code: 'UNREACHABLE' })
  expect(streams).toBe(0)
})

test('a batch gets its connection or STOPPED, never one that has been given back', async ({ database }) => {
  for (let turns = 0; turns < 12; turns++) {
    const pool = openPool({ connectionString: database.url })
    const controller = new AbortController()
    pool.once('acquire', () => void abortAfter(turns, controller))
    const got = await BatchConnection.acquire(pool, controller.signal).catch((error: unknown) => error)
    if (!(got instanceof BatchConnection)) expect({ turns, got }).toMatchObject({ got: { code: 'STOPPED' } })
    else {
      got.begin()
      await got.rollback()
      got.release()
    }
    await pool.end()
  }
})

async function abortAfter(turns: number, controller: AbortController): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await Promise.resolve()
  controller.abort()
}
