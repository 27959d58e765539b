import { expect } from 'vitest'
import { put, test } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

test('runOnce waits for the row of a slot that it has found, and leaves nothing that is due', async ({
  database,
  sluice,
  queue,
  log,
}) => {
  await put(sluice, queue, ['without a key'])
  await put(sluice, queue, ['with a key'], { orderingKey: 'a' })
  const operator = await database.pool.connect()
  try {
    // Lets claims pass, and nobody make a row.
    await operator.query('BEGIN; LOCK TABLE sluice.slot IN SHARE MODE')
    const run = sluice
      .pipeline(queue)
      .handle(() => undefined)
      .runOnce()
    await log.first('batch.committed')
    // Its last statement is the claim, or the look behind it.
    const asked = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sluice'
                   AND state <> 'active' AND (query LIKE '%sluice.crash%' OR query LIKE '%sluice.worker w%' OR query = 'ROLLBACK')`
    await waitFor(async () => (await database.sql(asked)).length > 0, { what: 'the answer to the next claim' })
    await operator.query('ROLLBACK')
    expect((await run).map(({ message }) => message.payload)).toEqual(['without a key', 'with a key'])
  } finally {
    operator.release()
  }
})
