import { expect, vi } from 'vitest'
import { MessageTransaction } from '../../../src/handle/transaction/message-transaction.ts'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { openPool } from '../../support/servers/pool.ts'
import { test } from '../../support/sluice.ts'

test("each handler's first statement is one packet with its savepoint, and with the end of the one before", async ({
  database,
}) => {
  const pool = openPool({ connectionString: database.url, pipeline: true })
  const connection = await BatchConnection.acquire(pool)
  try {
    connection.begin()
    await connection.client.query('SELECT')
    const { stream } = connection.client.connection
    const writes = [vi.spyOn(stream, '_write'), vi.spyOn(stream, '_writev')]
    const packets = () => writes.reduce((count, { mock }) => count + mock.calls.length, 0)
    for (const handled of [1, 2, 3]) {
      const tx = new MessageTransaction(connection, async () => '')
      await tx.query('SELECT $1::integer', [handled])
      expect(packets()).toBe(handled)
      connection.sendSoon('RESET ALL')
      tx.close()
    }
  } finally {
    await connection.abandon()
    connection.release()
    await pool.end()
  }
})
