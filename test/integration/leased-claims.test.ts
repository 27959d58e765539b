import { describe, expect } from 'vitest'
import { untilEmpty } from '../support/rows/rows.ts'
import { startProxy } from '../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

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
    await waitFor(async () => (await database.sql('SELECT FROM sluice.batch WHERE queue = $1', [queue])).length === 0, {
      what: 'the records to go',
    })
  })

  test('never waits for the disk', async ({ sluice, queue, database }) => {
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
      .handle(() => undefined)
      .runOnce()
    const commits = await database.sql('SELECT synchronous FROM committed')
    await database.sql('DROP TRIGGER note_commit ON sluice.message')
    expect(commits).toEqual(Array.from({ length: 4 }, () => ({ synchronous: 'off' })))
  })
})
