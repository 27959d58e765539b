import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const BATCHES = 'sluice'

describe("a batch's connection that is half-open", () => {
  for (const [what, end] of [
    ['its settlement', () => undefined],
    ['a statement of its handler', (query: () => Promise<unknown>) => query()],
  ] as const) {
    test(`is given up when ${what} is not answered, and nothing is held against the message`, async ({
      database,
      queue,
    }) => {
      const proxy = await startProxy(database.url)
      const sluice = startTestSluice({ url: proxy.url }, { directConnection: database.url })
      const log = new EventLog(sluice.events)
      const steps = new Steps()
      sluice.pipeline(queue, { timeout: 500 }).handle(steps.handle).subscribe()
      await put(sluice, queue, [1])
      const first = await steps.next()
      proxy.blackHole(BATCHES)
      proxy.heal()
      first.endBy(() => end(() => first.context.tx.query('SELECT 1')))
      await log.first('batch.released')
      const second = await steps.endNext()
      await untilEmpty(database, queue)
      expect(second.message.attempt).toBe(1)
    })
  }

  test('is not what one looks like to which the server owes nothing', async ({ database }) => {
    const connection = await BatchConnection.acquire(database.pool)
    onTestFinished(() => connection.release())
    const waits = () => connection.waitsSinceMs !== undefined
    connection.begin()
    const one = connection.execute({ name: 'one', text: 'SELECT 1' }, [])
    const broken = connection.execute({ name: 'broken', text: 'SELECT 1 / 0' }, [])
    const seen = [waits()]
    await one
    seen.push(waits())
    await expect(broken).rejects.toThrow('division by zero')
    seen.push(waits())
    const committed = connection.commit()
    seen.push(waits())
    await expect(committed).rejects.toMatchObject({ code: 'COMMIT_FAILED' })
    expect([...seen, waits()]).toEqual([true, true, false, true, false])
  })

  test('is not what a COMMIT looks like that the server works on', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    const sluice = startTestSluice({ url: proxy.url })
    const log = new EventLog(sluice.events)
    await database.sql(SLOW_COMMIT)
    const holder = new pg.Client(database.url)
    await holder.connect()
    onTestFinished(() => holder.end())
    await holder.query('SELECT pg_advisory_lock(5)')
    sluice
      .pipeline(queue, { timeout: 100 })
      .handle(async (_, { tx }) => {
        await tx.query(NO_LIMIT)
        await tx.query('INSERT INTO slow VALUES (1)')
      })
      .subscribe()
    await put(sluice, queue, [1])
    const asked = () => proxy.statements.filter(({ text }) => text.startsWith('sluice_works_since'))
    await waitFor(() => asked().length === 2, { what: 'the second question' })
    await holder.query('SELECT pg_advisory_unlock(5)')
    await untilEmpty(database, queue)
    expect({ released: log.of('batch.released').length }).toEqual({ released: 0 })
  })
})

/** From PostgreSQL 17 on the server would end the transaction while it commits; before, there is no such limit. */
const NO_LIMIT = `SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout'`

/** Its COMMIT waits for the lock 5. */
const SLOW_COMMIT = `
CREATE TABLE slow (id integer);
CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(5); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_commit()`
