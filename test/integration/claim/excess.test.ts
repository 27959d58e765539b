import { expect } from 'vitest'
import { claim } from '../../../src/table/claim/claim.ts'
import { test as base, bottomOf, idsOf, lockedIds, put, untilBlocked } from '../../support/rows/claim-session.ts'
import { acked } from '../../support/rows/settled-rows.ts'
import { postponeMessages } from '../../support/rows/write-settled.ts'

/** Stops a claim between its snapshot and its first row, where it reads the clock. */
const test = base.extend('stopped', async ({ database, queue, begin }) => {
  const [gate, claimer] = [await begin(), await begin()]
  await gate.client.query('SELECT pg_advisory_xact_lock(4711)')
  await claimer.client.query(`
    CREATE SCHEMA played;
    CREATE FUNCTION played.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock(4711);
      RETURN pg_catalog.clock_timestamp();
    END $$;
    SET LOCAL search_path = played, pg_catalog`)
  return async (limit: number, meanwhile: () => Promise<unknown>) => {
    const claiming = claim(claimer.execute, queue, bottomOf(5), limit)
    await untilBlocked(database, claimer, 'the claim to wait')
    await meanwhile()
    await gate.rollBack()
    return idsOf(await claiming)
  }
})

test('P3: a claim does not lock a message that another batch acks meanwhile', async ({
  database,
  queue,
  begin,
  stopped,
}) => {
  const ids = await put(database, queue, [{}, {}])
  const batch = await begin()
  expect(idsOf(await claim(batch.execute, queue, bottomOf(5), 1))).toEqual(ids.slice(0, 1))
  const taken = await stopped(10, async () => {
    await acked(batch.execute, queue, ids.slice(0, 1))
    await batch.commit()
  })
  expect(taken).toEqual(ids.slice(1))
  expect(await lockedIds(database, queue)).toEqual(ids.slice(1))
})

// PostgreSQL locks the newest version of a row before it asks whether that still qualifies, and keeps the lock. What is
// locked in excess is due later and was in another batch's hands an instant ago; it is free when this batch ends.
test('P3: of a message that another batch postpones meanwhile a claim takes nothing but the lock', async ({
  database,
  queue,
  begin,
  stopped,
}) => {
  const ids = await put(database, queue, [{}, {}])
  const batch = await begin()
  expect(idsOf(await claim(batch.execute, queue, bottomOf(5), 1))).toEqual(ids.slice(0, 1))
  const taken = await stopped(10, async () => {
    const dueUs = Date.now() * 1_000 + 60_000_000
    await postponeMessages(batch.execute, queue, [{ id: ids[0]!, dueUs, attempt: 1, error: 'broken' }], 0)
    await batch.commit()
  })
  expect(taken).toEqual(ids.slice(1))
  expect(await lockedIds(database, queue)).toEqual(ids)
})
