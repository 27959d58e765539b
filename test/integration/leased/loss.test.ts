import pg from 'pg'
import { describe, expect } from 'vitest'
import { pause } from '../../../src/basics/time/pause.ts'
import { deadLetter } from '../../../src/index.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

describe('a lease', () => {
  test('is renewed while the handler runs', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1])
    const until = async () => {
      const [row] = await database.sql<{ us: string }>(
        `SELECT (extract(epoch FROM due_at) * 1000000)::bigint::text AS us FROM sluice.message WHERE queue = $1`,
        [queue],
      )
      return BigInt(row?.us ?? 0)
    }
    const begun = deferred()
    const go = deferred()
    const run = sluice
      .pipeline(queue, { mode: 'leased', lease: '1s' })
      .handle(async () => {
        begun.resolve()
        await go.promise
      })
      .runOnce()
    await begun.promise
    const first = await until()
    await waitFor(async () => (await until()) > first + 1_500_000n, { what: 'the lease to be renewed' })
    go.resolve()
    expect((await run).counts.acked).toBe(1)
  })

  test('that is lost aborts the handler, and what it settles after that removes nothing', async ({
    sluice,
    queue,
    database,
    log,
  }) => {
    await put(sluice, queue, [1])
    const begun = deferred()
    const aborted = deferred()
    let reason: unknown
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', lease: '1s' })
      .handle(async (_, { signal }) => {
        signal.addEventListener('abort', () => {
          reason = signal.reason
          aborted.resolve()
        })
        begun.resolve()
        await aborted.promise
      })
      .start()
    await begun.promise
    // As a rescue does it: the message is somebody else's now, and for long.
    await database.sql(
      `UPDATE sluice.message SET lease = 1::bigint << 50, due_at = clock_timestamp() + interval '1 h' WHERE queue = $1`,
      [queue],
    )
    await aborted.promise
    expect(reason).toMatchObject({ code: 'LEASE_LOST' })
    await log.first('lease.lost')
    await pipeline.drain()
    expect(await database.sql('SELECT attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([{ attempt: 0 }])
  })

  test('that has run out counts as a failed attempt for who claims the message next', async ({
    sluice,
    queue,
    database,
  }) => {
    await put(sluice, queue, [1], { maxAttempts: 3 })
    await database.sql(
      `UPDATE sluice.message SET lease = 1::bigint << 50, due_at = clock_timestamp() - interval '1 s' WHERE queue = $1`,
      [queue],
    )
    const attempts: number[] = []
    await sluice
      .pipeline(queue, { mode: 'leased' })
      .handle((_, { attempt }) => void attempts.push(attempt))
      .runOnce()
    expect(attempts).toEqual([2])
  })

  test('ends with the timeout of a handler, which counts as failed', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1, 2])
    const { counts } = await sluice
      .pipeline(queue, { mode: 'leased', timeout: '50ms', retry: { kind: 'fixed', delay: '1h' } })
      .handle(async ({ payload }) => {
        if (payload === 1) await new Promise(() => undefined)
      })
      .runOnce()
    expect(counts).toMatchObject({ acked: 1, retried: 1 })
    expect(await database.sql('SELECT last_error FROM sluice.message WHERE queue = $1', [queue])).toEqual([
      { last_error: expect.stringContaining('expected to end within 50 ms') },
    ])
  })

  test('extend() gives a handler its whole time again', async ({ sluice, queue }) => {
    await put(sluice, queue, [1])
    const { counts } = await sluice
      .pipeline(queue, { mode: 'leased', timeout: '1s' })
      .handle(async (_, { extend }) => {
        const begunAt = performance.now()
        while (performance.now() - begunAt < 1_200) {
          await pause(20)
          await extend()
        }
      })
      .runOnce()
    expect(counts.acked).toBe(1)
  })

  test('of a message that somebody has locked does not keep the others from being settled', async ({
    sluice,
    queue,
    database,
    log,
  }) => {
    const ids = await put(sluice, queue, [1, 2, 3])
    const all = deferred()
    const go = deferred()
    let count = 0
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(async () => {
        count += 1
        if (count === 3) all.resolve()
        await go.promise
      })
      .start()
    await all.promise
    const holder = new pg.Client({ connectionString: database.url })
    await holder.connect()
    await holder.query('BEGIN')
    await holder.query('SELECT FROM sluice.message WHERE queue = $1 AND id = $2 FOR UPDATE', [queue, ids[0]])
    go.resolve()
    const left = () => database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue])
    await waitFor(async () => (await left()).length === 1, { what: 'the others to be settled' })
    await log.first('settlement.failed')
    await holder.query('ROLLBACK')
    await holder.end()
    await waitFor(async () => (await left()).length === 0, { what: 'the one to be settled' })
    expect(log.of('lease.lost')).toEqual([])
    await pipeline.drain()
  })

  test('a settlement that fails is sent again', async ({ sluice, queue, database, log }) => {
    await put(sluice, queue, [1, 2])
    await database.sql(`
      CREATE SEQUENCE tries;
      CREATE FUNCTION fail_twice() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF nextval('tries') <= 2 THEN RAISE EXCEPTION 'not yet'; END IF;
        RETURN OLD;
      END $$;
      CREATE TRIGGER fail_twice BEFORE DELETE ON sluice.message FOR EACH ROW WHEN (OLD.queue = '${queue}') EXECUTE FUNCTION fail_twice()`)
    const { counts } = await sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(() => undefined)
      .runOnce()
    expect(counts.acked).toBe(2)
    expect(log.of('settlement.failed').length).toBeGreaterThan(0)
    await database.sql('DROP TRIGGER fail_twice ON sluice.message')
  })
})

describe('what the database does not let be written', () => {
  test('keeps no other message from being settled, and leaves its own where it is', async ({
    sluice,
    queue,
    database,
    log,
  }) => {
    const ids = await put(sluice, queue, [1, 2, 3, 4, 5, 6])
    await database.sql(`
      CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
      CREATE TRIGGER refuse_one BEFORE DELETE ON sluice.message FOR EACH ROW WHEN (OLD.id = ${ids[2]}) EXECUTE FUNCTION refuse_one()`)
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(() => undefined)
      .start()
    const left = () => database.sql('SELECT payload FROM sluice.message WHERE queue = $1', [queue])
    await waitFor(async () => (await left()).length === 1, { what: 'the others to be settled' })
    expect(await left()).toEqual([{ payload: 3 }])
    expect(log.of('lease.lost')).toEqual([])
    await database.sql('DROP TRIGGER refuse_one ON sluice.message')
    await waitFor(async () => (await left()).length === 0, { what: 'the last one to be settled' })
    await pipeline.drain()
  })

  test('a dead letter that is swallowed leaves the message in its queue', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1])
    await database.sql(`
      CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
      CREATE TRIGGER swallow BEFORE INSERT ON sluice.dead_letter FOR EACH ROW WHEN (NEW.queue = '${queue}') EXECUTE FUNCTION swallow()`)
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(() => deadLetter('no use'))
      .start()
    await waitFor(async () => (await database.sql('SELECT FROM sluice.message WHERE lease > 0')).length > 0, {
      what: 'the message to be leased',
    })
    await pipeline.stop()
    expect(await database.sql('SELECT payload FROM sluice.message WHERE queue = $1', [queue])).toEqual([{ payload: 1 }])
    await database.sql('DROP TRIGGER swallow ON sluice.dead_letter')
  })
})

describe('both modes on one queue', () => {
  test('handle each message once, and each key in its order', async ({ sluice, queue, database }) => {
    const keys = ['a', 'b', 'c', 'd', undefined]
    const messages = Array.from({ length: 600 }, (_, n) => ({ payload: n, orderingKey: keys[n % keys.length] }))
    await sluice.enqueueMany(sluice.ownTransaction, queue, messages)
    const handled: number[] = []
    const running = new Set<string>()
    const overlaps: string[] = []
    const handle = async ({ payload, orderingKey }: { payload: unknown; orderingKey: string | null }) => {
      if (orderingKey !== null && running.has(orderingKey)) overlaps.push(orderingKey)
      if (orderingKey !== null) running.add(orderingKey)
      await new Promise((resolve) => setImmediate(resolve))
      handled.push(Number(payload))
      if (orderingKey !== null) running.delete(orderingKey)
    }
    const [second, third] = [startTestSluice(database), startTestSluice(database)]
    const pipelines = [
      sluice.pipeline(queue, { mode: 'leased', concurrency: 20, batchSize: 7 }).handle(handle).start(),
      second.pipeline(queue, { mode: 'leased', concurrency: 5, batchSize: 3 }).handle(handle).start(),
      third.pipeline(queue, { concurrency: 2, batchSize: 5 }).handle(handle).start(),
    ]
    await waitFor(() => handled.length >= 600, { what: 'all messages to be handled' })
    await Promise.all(pipelines.map((pipeline) => pipeline.drain()))
    expect(handled).toHaveLength(600)
    expect(overlaps).toEqual([])
    for (const key of [0, 1, 2, 3]) {
      const ofKey = handled.filter((n) => n % keys.length === key)
      expect(ofKey).toEqual(ofKey.toSorted((a, b) => a - b))
    }
  })
})
