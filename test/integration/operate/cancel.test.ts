import { describe, expect } from 'vitest'
import * as z from 'zod'
import { retryLater, snooze } from '../../../src/message.ts'
import { HoldRelease } from '../../../src/services/hold-release.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { readOrphanedHolds } from '../../../src/table/worker/release-holds.ts'
import { EventLog } from '../../support/event-log.ts'
import { executeAlone } from '../../support/permutations/claims.ts'
import { loweredFlag, raisedFlag } from '../../support/rows/flag.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'
import { TestWakeUp } from '../../support/wake-up.ts'

const LEFT = 'SELECT id::text AS id FROM sluice.message WHERE queue = $1 ORDER BY id'
const HELD = `SELECT h.key, h.value ->> 0 AS id FROM sluice.slot s CROSS JOIN LATERAL jsonb_each(s.held) h WHERE s.queue = $1`

const waiting = async (database: TestDatabase, queue: string) =>
  (await database.sql<{ id: string }>(LEFT, [queue])).map(({ id }) => id)

/** Starts a pipeline that sleeps, so that the process listens: a request goes by a notification. */
async function listening(sluice: Sluice, database: TestDatabase, queue: string) {
  const other = sluice.pipeline(queue).handle(() => undefined)
  const running = other.start()
  await raisedFlag(database, queue)
  return running
}

/** The same. `hasHeard` resolves when the process has read the requests that were notified before. */
async function listeningInTurn(sluice: Sluice, database: TestDatabase, queue: string) {
  const heard = deferred()
  const other = sluice.pipeline(queue, { concurrency: 1 }).handle(async () => {
    await loweredFlag(database, queue)
    heard.resolve()
  })
  const running = other.start()
  // It sleeps, so the process listens.
  await raisedFlag(database, queue)
  return {
    drain: () => running.drain(),
    // The notification goes through the listener, and so does that of this message. The flag is raised again on the
    // connection that has read the request before.
    async hasHeard() {
      await put(sluice, queue, [1])
      await heard.promise
      await raisedFlag(database, queue)
    },
  }
}

describe('cancel', () => {
  test('of a message that waits: it is gone, in whichever state it was', async ({ sluice, queue, database }) => {
    const [ready, retrying, expired] = await put(sluice, queue, [1, 2, 3])
    const [scheduled] = await put(sluice, queue, [4], { delay: '1h' })
    await database.sql(
      `UPDATE sluice.message SET attempt = 1, due_at = clock_timestamp() + interval '1 hour' WHERE queue = $1 AND id = $2`,
      [queue, retrying],
    )
    await database.sql('UPDATE sluice.message SET expires_at = clock_timestamp() WHERE queue = $1 AND id = $2', [
      queue,
      expired,
    ])
    for (const [id, state] of [
      [ready, 'ready'],
      [retrying, 'retrying'],
      [expired, 'expired'],
      [scheduled, 'scheduled'],
    ] as const) {
      expect(await sluice.operate.messages.cancel(queue, id!)).toEqual({ result: 'cancelled', state })
      expect(await sluice.operate.messages.cancel(queue, id!)).toEqual({ result: 'nothing', state: 'unknown' })
    }
    expect(await waiting(database, queue)).toEqual([])
  })

  test('of a dead letter does nothing', async ({ sluice, queue, database }) => {
    const [id] = await put(sluice, queue, [1], { maxAttempts: 1 })
    await sluice
      .pipeline(queue)
      .handle(() => retryLater())
      .runOnce()
    expect(await sluice.operate.messages.cancel(queue, id!)).toEqual({ result: 'nothing', state: 'dead' })
    expect(await database.sql('SELECT FROM sluice.dead_letter WHERE queue = $1', [queue])).toHaveLength(1)
  })

  test('in a transaction of the caller holds if that commits', async ({ sluice, queue, database }) => {
    const [id] = await put(sluice, queue, [1])
    const client = await database.pool.connect()
    try {
      await client.query('BEGIN')
      expect(await sluice.operate.messages.cancel(queue, id!, { tx: client })).toMatchObject({ result: 'cancelled' })
      await client.query('ROLLBACK')
    } finally {
      client.release()
    }
    expect(await waiting(database, queue)).toEqual([id])
  })

  test('of a leased message: its signal aborts, and its result is refused', async ({
    sluice,
    queue,
    database,
    log,
  }) => {
    const other = await listening(sluice, database, `${queue}.other`)
    const [id, next] = await put(sluice, queue, ['first', 'next'], { orderingKey: 'key' })
    const begun = deferred()
    const after = deferred()
    let reason: unknown
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 2 })
      .handle(async ({ payload }, { signal, transaction }) => {
        if (payload === 'next') return after.resolve()
        begun.resolve()
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
        reason = signal.reason
        await transaction((tx) => tx.query('SELECT 1'))
      })
      .start()
    await begun.promise
    expect(await sluice.operate.messages.cancel(queue, id!)).toEqual({ result: 'cancelled', state: 'in_flight' })
    await waitFor(() => reason !== undefined, { what: 'the signal' })
    expect(reason).toMatchObject({ code: 'LEASE_LOST', message: expect.stringContaining('cancelled') })
    await after.promise
    await pipeline.drain()
    await other.drain()
    expect(await waiting(database, queue)).toEqual([])
    expect(log.of('message.cancelled')).toMatchObject([{ queue, id, attempt: 1 }])
    expect(log.of('lease.lost')).toEqual([])
    expect(next).toBeDefined()
  })

  test('of a message in a claim: it is gone when the claim settles it', async ({ sluice, queue }) => {
    const ids = await put(sluice, queue, [1, 2])
    const claim = await sluice.claim(queue)
    expect(await sluice.operate.messages.cancel(queue, ids[0]!)).toEqual({ result: 'cancelled', state: 'in_flight' })
    expect(await claim?.settle(ids)).toEqual({ settled: [ids[1]], refused: [{ id: ids[0], reason: 'gone' }] })
  })

  test('of a message in the hands of a transaction asks its handler, whose writes are undone', async ({
    sluice,
    queue,
    database,
    log,
  }) => {
    await database.sql('CREATE TABLE IF NOT EXISTS effect (n integer)')
    const other = await listening(sluice, database, `${queue}.other`)
    const ids = await put(sluice, queue, [1, 2])
    const begun = deferred()
    let reason: unknown
    const pipeline = sluice
      .pipeline(queue)
      .handle(async ({ payload }, { signal, tx }) => {
        await tx.query('INSERT INTO effect VALUES ($1)', [payload])
        if (payload === 2) return
        begun.resolve()
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
        reason = signal.reason
      })
      .start()
    await begun.promise
    expect(await sluice.operate.messages.cancel(queue, ids[0]!)).toEqual({ result: 'asked', state: 'in_flight' })
    await waitFor(async () => (await waiting(database, queue)).length === 0, { what: 'the batch to be settled' })
    await pipeline.drain()
    await other.drain()
    expect(reason).toMatchObject({ code: 'CANCELLED' })
    expect(await database.sql('SELECT n FROM effect')).toEqual([{ n: 2 }])
    expect(log.of('message.cancelled')).toMatchObject([{ queue, id: ids[0] }])
    expect(log.of('message.failed')).toEqual([])
  })

  test('of a message that waits for its turn in a batch: its handler is not called', async ({
    database,
    sluice,
    queue,
  }) => {
    const other = await listeningInTurn(sluice, database, `${queue}.other`)
    const ids = await put(sluice, queue, [1, 2])
    const [begun, go] = [deferred(), deferred()]
    const handled: unknown[] = []
    const pipeline = sluice
      .pipeline(queue)
      .handle(async ({ payload }) => {
        handled.push(payload)
        begun.resolve()
        await go.promise
      })
      .start()
    await begun.promise
    expect(await sluice.operate.messages.cancel(queue, ids[1]!)).toEqual({ result: 'asked', state: 'in_flight' })
    await other.hasHeard()
    go.resolve()
    await pipeline.drain()
    await other.drain()
    expect(handled).toEqual([1])
  })

  test('of a message whose schema is waited for: its handler is not called', async ({ database, sluice, queue }) => {
    const [begun, go] = [deferred(), deferred()]
    const schema = z.unknown().refine(async () => {
      begun.resolve()
      await go.promise
      return true
    })
    const worker = startTestSluice(database, { queues: { [queue]: { schema }, [`${queue}.other`]: {} } })
    const log = new EventLog(worker.events)
    const other = await listeningInTurn(worker, database, `${queue}.other`)
    const handled: unknown[] = []
    const [id] = await put(sluice, queue, [1])
    const pipeline = worker
      .pipeline(queue)
      .handle(({ payload }) => void handled.push(payload))
      .start()
    await begun.promise
    expect(await sluice.operate.messages.cancel(queue, id!)).toEqual({ result: 'asked', state: 'in_flight' })
    await other.hasHeard()
    go.resolve()
    await pipeline.drain()
    await other.drain()
    expect(handled).toEqual([])
    expect(log.of('message.cancelled')).toMatchObject([{ queue, id }])
    expect(await waiting(database, queue)).toEqual([])
  })

  for (const mode of ['transactional', 'leased'] as const) {
    test(`of a ${mode} message that holds its key lets the next one go`, async ({ sluice, queue, database }) => {
      const [first, next] = await put(sluice, queue, ['first', 'next'], { orderingKey: 'key' })
      const handled: unknown[] = []
      const run = () =>
        sluice
          .pipeline(queue, { mode: mode as 'transactional' })
          .handle(({ payload }) => {
            handled.push(payload)
            return payload === 'first' ? retryLater({ after: '1h' }) : undefined
          })
          .runOnce()
      await run()
      expect(handled).toEqual(['first'])
      expect(await sluice.operate.messages.cancel(queue, first!)).toEqual({ result: 'cancelled', state: 'retrying' })
      expect(await database.sql(HELD, [queue])).toEqual([])
      await run()
      expect(handled).toEqual(['first', 'next'])
      expect(next).toBeDefined()
    })
  }

  test('of a message that holds its key opens it also if a delayed one of the key falls due before its retry', async ({
    sluice,
    queue,
  }) => {
    const [first] = await put(sluice, queue, ['first', 'next'], { orderingKey: 'key' })
    await put(sluice, queue, ['delayed'], { orderingKey: 'key', delay: '30m' })
    const handled: unknown[] = []
    const pipeline = sluice.pipeline(queue).handle(({ payload }) => {
      handled.push(payload)
      return payload === 'first' ? retryLater({ after: '1h' }) : undefined
    })
    await pipeline.runOnce()
    await sluice.operate.messages.cancel(queue, first!)
    await pipeline.runOnce()
    expect(handled).toEqual(['first', 'next'])
  })

  test('of one of two that hold their key leaves the hold to the other', async ({ sluice, queue, database }) => {
    const ids = await put(sluice, queue, [1, 2, 3], { orderingKey: 'key' })
    await sluice
      .pipeline(queue)
      .handleBatch((messages) =>
        messages.map(({ payload }) => (payload === 3 ? undefined : snooze({ after: payload === 1 ? '1h' : '2h' }))),
      )
      .runOnce()
    await put(sluice, queue, [4], { orderingKey: 'key' })
    await sluice.operate.messages.cancel(queue, ids[0]!)
    expect(await database.sql(HELD, [queue])).toEqual([{ key: 'key', id: ids[1] }])
    await sluice.operate.messages.cancel(queue, ids[1]!)
    expect(await database.sql(HELD, [queue])).toEqual([])
  })

  test('of one that holds its key while a batch has its slot waits for nobody, and the key opens', async ({
    sluice,
    queue,
    database,
  }) => {
    const [first] = await put(sluice, queue, ['first', 'next'], { orderingKey: 'key' })
    await sluice
      .pipeline(queue)
      .handle(() => retryLater({ after: '1h' }))
      .runOnce()
    const client = await database.pool.connect()
    await client.query('BEGIN')
    await client.query('SELECT FROM sluice.slot WHERE queue = $1 FOR NO KEY UPDATE', [queue])
    const handled = deferred()
    const pipeline = sluice
      .pipeline(queue)
      .handle(() => handled.resolve())
      .start()
    await waitFor(async () => (await sluice.operate.workers.list({ queue })).length > 0, { what: 'the worker' })
    try {
      expect(await sluice.operate.messages.cancel(queue, first!)).toEqual({ result: 'cancelled', state: 'retrying' })
      await client.query('COMMIT')
    } finally {
      client.release()
    }
    await handled.promise
    await pipeline.drain()
    expect(await database.sql(HELD, [queue])).toEqual([])
  })

  test('of one that holds its key while a batch has its slot opens the key also if no worker was there to hear of it', async ({
    sluice,
    queue,
    database,
  }) => {
    const [first] = await put(sluice, queue, ['first', 'next'], { orderingKey: 'key' })
    await sluice
      .pipeline(queue)
      .handle(() => retryLater({ after: '1h' }))
      .runOnce()
    const client = await database.pool.connect()
    await client.query('BEGIN')
    await client.query('SELECT FROM sluice.slot WHERE queue = $1 FOR NO KEY UPDATE', [queue])
    expect(await sluice.operate.messages.cancel(queue, first!)).toEqual({ result: 'cancelled', state: 'retrying' })
    await client.query('COMMIT')
    client.release()
    const execute = executeAlone(database)
    expect(await readOrphanedHolds(execute, ['other', queue])).toEqual([queue])
    const released = deferred<string>()
    const release = new HoldRelease({ control: { execute }, queues: () => [queue], onReleased: released.resolve })
    await release.runOnce()
    expect(await released.promise).toBe(queue)
    await release.stop()
    expect(await database.sql(HELD, [queue])).toEqual([])
    expect(await readOrphanedHolds(execute, ['other', queue])).toEqual([])
  })

  test('of the second of two that hold their key together is found as well if no worker was there to hear of it', async ({
    sluice,
    queue,
    database,
  }) => {
    const [, second] = await put(sluice, queue, ['first', 'second'], { orderingKey: 'key' })
    await sluice
      .pipeline(queue)
      .handleBatch((messages) => messages.map(() => snooze({ after: '1h' })))
      .runOnce()
    const client = await database.pool.connect()
    await client.query('BEGIN')
    await client.query('SELECT FROM sluice.slot WHERE queue = $1 FOR NO KEY UPDATE', [queue])
    expect(await sluice.operate.messages.cancel(queue, second!)).toMatchObject({ result: 'cancelled' })
    await client.query('COMMIT')
    client.release()
    expect(await readOrphanedHolds(executeAlone(database), [queue])).toEqual([queue])
  })

  test("of one that holds its key wakes those who sleep, also on a queue with a ':' in its name", async ({
    sluice,
    queue,
    database,
  }) => {
    for (const name of [queue, `${queue}:high`]) {
      const [first] = await put(sluice, name, ['first', 'next'], { orderingKey: 'key' })
      await sluice
        .pipeline(name)
        .handle(() => retryLater({ after: '1h' }))
        .runOnce()
      const wakeUp = await TestWakeUp.start(database)
      wakeUp.sleep(name)
      await raisedFlag(database, name)
      await sluice.operate.messages.cancel(name, first!)
      await wakeUp.listener.marker(database)
      expect(wakeUp.listener.notified).toContain(name)
      await wakeUp.stop()
    }
  })

  test('refuses what is no id', async ({ sluice, queue }) => {
    await expect(sluice.operate.messages.cancel(queue, 'x')).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })
})
