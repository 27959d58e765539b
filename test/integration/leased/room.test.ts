import { expect } from 'vitest'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

test('P3: as many messages wait to be settled as handlers may run, and no more', async ({ queue, database }) => {
  const gate = 746_599
  await database.sql(
    `CREATE FUNCTION wait_for_gate() RETURNS trigger LANGUAGE plpgsql
     AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(${gate}); RETURN OLD; END'`,
  )
  await database.sql(
    'CREATE TRIGGER gate BEFORE DELETE ON sluice.message FOR EACH ROW EXECUTE FUNCTION wait_for_gate()',
  )
  const keeper = await database.pool.connect()
  await keeper.query('SELECT pg_advisory_lock($1)', [gate])
  const sluice = startTestSluice(database)
  const log = new EventLog(sluice.events)
  await put(sluice, queue, [1, 2, 3, 4, 5, 6, 7, 8])
  let handled = 0
  const pipeline = sluice
    .pipeline(queue, { mode: 'leased', concurrency: 2 })
    .handle(() => {
      handled += 1
    })
    .start()
  await waitFor(() => handled >= 4, { what: 'two messages, and two more' })
  // The first settlement has waited for as long as it may.
  await log.first('settlement.failed')
  expect(handled).toBe(4)
  expect((await sluice.operate.messages.list({ queue, state: 'in_flight' })).messages).toHaveLength(4)
  await keeper.query('SELECT pg_advisory_unlock($1)', [gate])
  keeper.release()
  await untilEmpty(database, queue)
  expect(handled).toBe(8)
  await pipeline.drain()
})
