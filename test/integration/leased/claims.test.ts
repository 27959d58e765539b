import pg from 'pg'
import { describe, expect } from 'vitest'
import { untilEmpty } from '../../support/rows/rows.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('a claim in leased mode', () => {
  test('whose answer is lost gives back what the server has leased', async ({ queue, database }) => {
    const proxy = await startProxy(database.url)
    const sluice = startTestSluice(database, { connection: proxy.url })
    // The first claim of a pipeline waits for a scan; the COMMIT of the second one leaves with it.
    await put(sluice, queue, ['first', 'the second'])
    proxy.passes = ({ type, bytes }, { from, application }) =>
      from === 'server' && application === 'sluice' && type === 'D' && bytes.includes('the second') ? 'wait' : true
    const attempts: [unknown, number][] = []
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', batchSize: 1 })
      .handle(({ payload }, { attempt }) => void attempts.push([payload, attempt]))
      .start()
    const leased = () =>
      database.sql(`SELECT FROM sluice.message WHERE queue = $1 AND payload::jsonb = '"the second"' AND lease > 0`, [
        queue,
      ])
    await waitFor(async () => (await leased()).length === 1, { what: 'the server to have leased it' })
    proxy.passes = () => true
    proxy.cut('sluice')
    await untilEmpty(database, queue)
    await pipeline.drain()
    expect(attempts).toEqual([
      ['first', 1],
      ['the second', 1],
    ])
    await waitFor(
      async () => (await database.sql('SELECT FROM sluice.batch_record WHERE queue = $1', [queue])).length === 0,
      {
        what: 'the records to go',
      },
    )
  })

  test('that fails gives back what the claims behind it have leased', async ({ sluice, queue, database }) => {
    // The third claim of a message fails once: a sequence does not roll back.
    await database.sql(`
      CREATE SEQUENCE lease_calls;
      CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF nextval('lease_calls') = 4 THEN RAISE EXCEPTION 'not now'; END IF;
        RETURN NEW;
      END $$;
      CREATE TRIGGER fail_once BEFORE UPDATE OF lease ON sluice.message FOR EACH ROW
        WHEN (NEW.queue = '${queue}' AND NEW.lease > 0) EXECUTE FUNCTION fail_once()`)
    const payloads = Array.from({ length: 9 }, (_, at) => at)
    await put(sluice, queue, payloads)
    const attempts: [unknown, number][] = []
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 9, batchSize: 1 })
      .handle(({ payload }, { attempt }) => void attempts.push([payload, attempt]))
      .start()
    await untilEmpty(database, queue)
    await pipeline.drain()
    await database.sql('DROP FUNCTION fail_once() CASCADE')
    expect(attempts.toSorted()).toEqual(payloads.map((n) => [n, 1]))
  })

  test('that waits for a lock on the table leaves nothing leased behind it', async ({ queue, database }) => {
    const url = new URL(database.url)
    url.searchParams.set('options', '-c lock_timeout=200ms')
    const sluice = startTestSluice(database, { connection: url.href, directConnection: database.url })
    const payloads = Array.from({ length: 20 }, (_, at) => at)
    await put(sluice, queue, payloads)
    const locker = new pg.Client({ connectionString: database.url })
    await locker.connect()
    const attempts: [number, number][] = []
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 9, batchSize: 1 })
      .handle(async ({ payload }, { attempt }) => {
        // The eight claims that leave when this one has begun come upon the lock.
        if (payload === 0) await locker.query('BEGIN; LOCK TABLE sluice.message')
        attempts.push([Number(payload), attempt])
      })
      .start()
    await waitFor(() => attempts.length > 0, { what: 'the lock to be there' })
    // Longer than a claim waits, and than its connection is waited for: the server goes on with the claims behind it.
    await locker.query('SELECT pg_sleep(1.5)')
    await locker.query('COMMIT')
    await locker.end()
    await untilEmpty(database, queue)
    await pipeline.drain()
    expect(attempts.toSorted(([a], [b]) => a - b)).toEqual(payloads.map((n) => [n, 1]))
    await waitFor(
      async () => (await database.sql('SELECT FROM sluice.batch_record WHERE queue = $1', [queue])).length === 0,
      {
        what: 'the records to go',
      },
    )
  })

  test('never waits for the disk, nor does a renewal', async ({ sluice, queue, database }) => {
    // Fires when the transaction commits.
    await database.sql(`
      CREATE TABLE committed (synchronous text);
      CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO committed VALUES (current_setting('synchronous_commit'));
        RETURN NULL;
      END $$;
      CREATE CONSTRAINT TRIGGER note_commit AFTER UPDATE ON sluice.message DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.queue = '${queue}' AND NEW.lease > 0) EXECUTE FUNCTION note_commit()`)
    // Those with a key have their turn after each of the others, and find nothing.
    await put(sluice, queue, ['later'], { orderingKey: 'k', delay: '1h' })
    await put(sluice, queue, [1, 2, 3, 4])
    await sluice
      .pipeline(queue, { mode: 'leased', batchSize: 1 })
      .handle((_, { extend }) => extend())
      .runOnce()
    const commits = await database.sql('SELECT synchronous FROM committed')
    await database.sql('DROP TRIGGER note_commit ON sluice.message')
    expect(commits).toEqual(Array.from({ length: 8 }, () => ({ synchronous: 'off' })))
  })
})

test('a single run handles all that is due, though its claims meet the slots that its own last ones have locked', async ({
  sluice,
  database,
}) => {
  for (let run = 0; run < 15; run++) {
    const queue = `once.${run}`
    for (const orderingKey of ['a', 'b', 'c'])
      await put(
        sluice,
        queue,
        Array.from({ length: 50 }, (_, at) => at),
        { orderingKey },
      )
    await sluice
      .pipeline(queue, { mode: 'leased', concurrency: 10, batchSize: 1 })
      .handle(() => undefined)
      .runOnce()
    expect(await database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue]), `run ${run}`).toHaveLength(0)
  }
})
