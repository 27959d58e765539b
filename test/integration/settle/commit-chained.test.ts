import { Socket } from 'node:net'
import type pg from 'pg'
import { describe, expect } from 'vitest'
import { statement } from '../../../src/table/statement.ts'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

const ONE = statement('one', 'SELECT 1')
const SETTING = 'enable_sort = off'
const BROKEN = SETTING.replace('off', 'odd')

/** Connections on which the first text that begins with COMMIT has a setting behind it that the server refuses. */
function breakFirstCommit(url: string): pg.ClientConfig {
  let broken = false
  const stream = () => {
    const socket = new Socket()
    // Not before: connect() puts the prototype's method back.
    socket.once('connect', () => {
      const { write } = socket
      socket.write = ((chunk: Buffer, ...rest: unknown[]) => {
        const at = broken || !chunk.includes('COMMIT AND CHAIN') ? -1 : chunk.indexOf(SETTING)
        if (at !== -1) {
          broken = true
          chunk.write(BROKEN, at)
        }
        return Reflect.apply(write, socket, [chunk, ...rest])
      }) as typeof socket.write
    })
    return socket
  }
  return { connectionString: url, stream }
}

describe('P7: an error behind COMMIT, of what begins the next transaction,', () => {
  test('leaves the commit what it is, and fails the next statement', async ({ database }) => {
    await database.sql('CREATE TABLE kept (n integer)')
    const connection = await BatchConnection.acquire(database.pool)
    try {
      connection.begin()
      await connection.client.query('INSERT INTO kept VALUES (1)')
      const tooLong = { ms: 1e12, serverVersion: 160_000 }
      const [committed, next] = connection.together(() => [
        connection.commit(tooLong),
        connection.execute(ONE, []).catch((error: unknown) => error),
      ])
      await committed
      expect(await next).toMatchObject({ code: '22023' })
      expect(connection.aborted).toBe(true)
    } finally {
      await connection.abandon()
      connection.release()
    }
    expect(await database.sql('SELECT n FROM kept')).toEqual([{ n: 1 }])
  })

  test('takes the next claim, and no batch: all is handled once and reported as committed', async ({
    database,
    queue,
  }) => {
    const sluice = startTestSluice(database, { connection: breakFirstCommit(database.url) })
    const log = new EventLog(sluice.events)
    const attempts: unknown[] = []
    await put(sluice, queue, [1, 2, 3])
    sluice
      .pipeline(queue, { batchSize: 1 })
      .handle(({ payload, attempt }) => {
        attempts.push([payload, attempt])
      })
      .subscribe()
    const failed = await log.first('claim.failed')
    await untilEmpty(database, queue)
    expect(failed).toMatchObject({ error: { code: '22023' } })
    expect(attempts).toEqual([1, 2, 3].map((payload) => [payload, 1]))
    expect(log.of('batch.released')).toEqual([])
    await log.first('batch.committed')
  })
})
