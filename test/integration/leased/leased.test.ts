import { describe, expect } from 'vitest'
import { ack, deadLetter, type LeasedContext, retryLater, snooze } from '../../../src/index.ts'
import { keysOf } from '../../support/rows/claim-session.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

describe('a leased pipeline', () => {
  test('handles messages side by side, with no transaction open', async ({ sluice, queue, database, log }) => {
    await put(sluice, queue, [1, 2, 3, 4, 5])
    const all = deferred()
    const inHand = new Set<unknown>()
    const go = deferred()
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 5 })
      .handle(async ({ payload }) => {
        inHand.add(payload)
        if (inHand.size === 5) all.resolve()
        await go.promise
      })
      .start()
    await all.promise
    // That of the claim ends in a moment.
    const open = () =>
      database.sql(
        `SELECT FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend'`,
      )
    await waitFor(async () => (await open()).length === 0, { what: 'no transaction to be open' })
    const states = await database.sql(
      `SELECT count(*)::integer AS n FROM sluice.message WHERE lease > 0 AND due_at > clock_timestamp() + interval '4 minutes'`,
    )
    expect(states).toEqual([{ n: 5 }])
    go.resolve()
    await waitFor(
      async () => (await database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue])).length === 0,
      {
        what: 'the queue to be empty',
      },
    )
    await pipeline.drain()
    expect(log.of('lease.lost')).toEqual([])
    await waitFor(
      async () => (await database.sql('SELECT FROM sluice.batch_record WHERE queue = $1', [queue])).length === 0,
      {
        what: 'the record to go',
      },
    )
  })

  test('goes on with the places that are free while one handler takes long', async ({ sluice, queue }) => {
    await put(sluice, queue, ['slow', ...Array.from({ length: 19 }, (_, at) => at)])
    const go = deferred()
    let handled = 0
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 10 })
      .handle(async ({ payload }) => {
        if (payload === 'slow') await go.promise
        else handled += 1
      })
      .start()
    await waitFor(() => handled === 19, { what: 'the others to be handled' })
    go.resolve()
    await pipeline.drain()
  })

  test('settles by each outcome', async ({ sluice, queue, database }) => {
    await put(sluice, queue, ['ack', 'retry', 'snooze', 'dead', 'throws'])
    const { counts } = await sluice
      .pipeline(queue, { mode: 'leased', concurrency: 10 })
      .handle(({ payload }) => {
        if (payload === 'retry') return retryLater({ after: '1h', error: 'later' })
        if (payload === 'snooze') return snooze({ after: '1h' })
        if (payload === 'dead') return deadLetter('no use')
        if (payload === 'throws') throw new Error('no luck')
        return ack()
      })
      .runOnce()
    expect(counts).toEqual({ acked: 1, retried: 2, snoozed: 1, dead: 1 })
    expect(
      await database.sql(
        `SELECT payload, attempt, lease, due_at > clock_timestamp() AS later, last_error FROM sluice.message WHERE queue = $1 ORDER BY id`,
        [queue],
      ),
    ).toEqual([
      { payload: 'retry', attempt: 1, lease: null, later: true, last_error: 'later' },
      { payload: 'snooze', attempt: 0, lease: null, later: true, last_error: null },
      { payload: 'throws', attempt: 1, lease: null, later: true, last_error: 'Error: no luck' },
    ])
    expect(await database.sql('SELECT reason FROM sluice.dead_letter WHERE queue = $1', [queue])).toEqual([
      { reason: 'no use' },
    ])
  })

  test('handles a key in its order, one message at a time, and other keys beside it', async ({ sluice, queue }) => {
    for (const n of [1, 2, 3, 4, 5, 6]) await put(sluice, queue, [n], { orderingKey: n % 2 === 0 ? 'even' : 'odd' })
    const handled: unknown[] = []
    const running = new Map<string, number>()
    await sluice
      .pipeline(queue, { mode: 'leased', concurrency: 2, batchSize: 2 })
      .handle(async ({ payload, orderingKey }) => {
        running.set(orderingKey!, (running.get(orderingKey!) ?? 0) + 1)
        expect(running.get(orderingKey!)).toBe(1)
        await new Promise((resolve) => setImmediate(resolve))
        handled.push(payload)
        running.set(orderingKey!, 0)
      })
      .runOnce()
    expect(handled.filter((n) => Number(n) % 2 === 0)).toEqual([2, 4, 6])
    expect(handled.filter((n) => Number(n) % 2 === 1)).toEqual([1, 3, 5])
  })

  test('a key with a backlog takes one place, and leaves the others to other keys', async ({ sluice, queue }) => {
    for (let n = 0; n < 30; n++) await put(sluice, queue, [n], { orderingKey: 'long' })
    for (let n = 0; n < 5; n++) await put(sluice, queue, ['short'], { orderingKey: `key ${n}` })
    const go = deferred()
    let short = 0
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 10 })
      .handle(async ({ payload }) => {
        if (payload === 'short') short += 1
        else await go.promise
      })
      .start()
    await waitFor(() => short === 5, { what: 'the messages of other keys' })
    go.resolve()
    await pipeline.stop()
  })

  test('sees the other keys of a slot in which a message has failed, and its last claim has found nothing', async ({
    sluice,
    queue,
    database,
  }) => {
    const { same } = await keysOf(database)
    // Each queue is a try at a race between two connections of the pipeline.
    for (let n = 0; n < 40; n++) {
      const name = `${queue}.${n}`
      await put(sluice, name, ['fails'], { orderingKey: same[0] })
      await put(sluice, name, ['succeeds'], { orderingKey: same[1] })
      await put(sluice, name, ['later'], { delay: '1h' })
      const { counts } = await sluice
        .pipeline(name, { mode: 'leased', concurrency: 3 })
        .handle(({ payload }) => (payload === 'fails' ? retryLater({ after: '1h' }) : undefined))
        .runOnce()
      expect(counts).toMatchObject({ acked: 1, retried: 1 })
    }
  })

  test('a failed message holds the later ones of its key, in transactional pipelines too', async ({
    sluice,
    queue,
    database,
  }) => {
    await put(sluice, queue, [1, 2], { orderingKey: 'k' })
    await put(sluice, queue, [3], { orderingKey: 'other' })
    const handled: unknown[] = []
    await sluice
      .pipeline(queue, { mode: 'leased', retry: { kind: 'fixed', delay: '1h' } })
      .handle(({ payload }) => {
        handled.push(payload)
        if (payload === 1) throw new Error('no')
      })
      .runOnce()
    expect(handled.toSorted()).toEqual([1, 3])
    await sluice
      .pipeline(queue)
      .handle(({ payload }) => void handled.push(payload))
      .runOnce()
    expect(handled.toSorted()).toEqual([1, 3])
    await database.sql('UPDATE sluice.message SET due_at = clock_timestamp() WHERE queue = $1', [queue])
    await sluice
      .pipeline(queue)
      .handle(({ payload }) => void handled.push(payload))
      .runOnce()
    expect(handled.slice(2)).toEqual([1, 2])
  })

  test('transaction() ends the message: what the handler does after it changes nothing, and it is called once', async ({
    sluice,
    queue,
    database,
    log,
  }) => {
    await database.sql('CREATE TABLE ended (id bigint)')
    await put(sluice, queue, [1, 2, 3])
    const refusals: unknown[] = []
    const { counts } = await sluice
      .pipeline(queue, { mode: 'leased' })
      .handleBatch(async (messages, { transaction }) => {
        const insert = () =>
          transaction((tx) => tx.query('INSERT INTO ended SELECT unnest($1::bigint[])', [messages.map(({ id }) => id)]))
        await Promise.allSettled([insert(), insert()]).then((all) => {
          for (const call of all) if (call.status === 'rejected') refusals.push(call.reason)
        })
        throw new Error('too late')
      })
      .runOnce()
    expect(counts).toEqual({ acked: 3, retried: 0, snoozed: 0, dead: 0 })
    expect(refusals).toMatchObject([{ code: 'TRANSACTION_CONTROL' }])
    expect(await database.sql('SELECT count(*)::integer AS n FROM ended')).toEqual([{ n: 3 }])
    expect(log.of('lease.lost')).toEqual([])
    expect(log.of('outcome.ignored')).toMatchObject(
      [1, 2, 3].map(() => ({ queue, attempt: 1, error: 'Error: too late' })),
    )
  })

  test.for<[string, (context: LeasedContext) => unknown, error: string]>([
    ['throws', () => Promise.reject(new Error('too late')), 'too late'],
    ['calls it again', ({ transaction }) => transaction(() => undefined), 'transaction(): expected no call'],
    ['returns a dead letter', () => deadLetter('too late'), "The handler's result: expected nothing or ack()"],
    ['returns a wrong value', () => 7, "The handler's result: expected nothing, ack()"],
  ])('a handler that %s after its transaction() is told of', async ([, end, error], { sluice, queue, log }) => {
    await put(sluice, queue, [1], { type: 'Asked' })
    const [settled] = await sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(async (_, context) => {
        await context.transaction(() => undefined)
        return end(context) as never
      })
      .runOnce()
    expect(settled?.outcome).toEqual({ kind: 'ack' })
    const [told] = log.of('outcome.ignored')
    expect(told).toMatchObject({ type: 'Asked', attempt: 1, error: expect.stringContaining(error) })
    expect(told?.cause?.message).toContain(error)
  })

  test('a transaction() that is still open when the time is up is rolled back, and the message is tried again', async ({
    sluice,
    queue,
    database,
    log,
  }) => {
    await database.sql('CREATE TABLE late (n integer)')
    await put(sluice, queue, [1])
    const { counts } = await sluice
      .pipeline(queue, { mode: 'leased', timeout: '200ms', retry: { kind: 'fixed', delay: '1h' } })
      .handle((_, { transaction }) =>
        transaction(async (tx) => {
          await tx.query('INSERT INTO late VALUES (1)')
          await new Promise(() => undefined)
        }),
      )
      .runOnce()
    expect(counts.retried).toBe(1)
    expect(await database.sql('SELECT FROM late')).toEqual([])
    expect(log.of('lease.lost')).toEqual([])
  })

  test('refuses what does not go with leases', ({ sluice, queue }) => {
    const pipeline = (options: object) => () => sluice.pipeline(queue, { mode: 'leased', ...options })
    expect(pipeline({ ordered: true })).toThrow(/orderingKey/)
    expect(pipeline({ lease: '10ms' })).toThrow(/lease: expected/)
    expect(pipeline({ concurrency: 20_000 })).toThrow(/concurrency: expected/)
    expect(() => sluice.pipeline(queue, { mode: 'other' as 'leased' })).toThrow(/'transactional' or 'leased'/)
  })

  test('a stop gives back what is in hand, with its place', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1, 2, 3])
    const due = () =>
      database.sql('SELECT id, due_at, attempt FROM sluice.message WHERE queue = $1 ORDER BY id', [queue])
    const before = await due()
    const begun = deferred()
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(async () => {
        begun.resolve()
        await new Promise(() => undefined)
      })
      .start()
    await begun.promise
    await pipeline.stop()
    expect(await due()).toEqual(before)
    const second = startTestSluice(database)
    expect(
      (
        await second
          .pipeline(queue)
          .handle(() => undefined)
          .runOnce()
      ).counts.acked,
    ).toBe(3)
  })

  test('transaction() commits effects and settlement together, or neither', async ({ sluice, queue, database }) => {
    await database.sql('CREATE TABLE effect (n integer)')
    await put(sluice, queue, [1, 2])
    const { counts } = await sluice
      .pipeline(queue, { mode: 'leased', retry: { kind: 'fixed', delay: '1h' } })
      .handle(async ({ payload }, { transaction, idempotencyKey }) => {
        expect(idempotencyKey).toMatch(/\/\d+$/)
        await transaction(async (tx) => {
          await tx.query('INSERT INTO effect VALUES ($1)', [payload])
          if (payload === 2) throw new Error('undone')
        })
      })
      .runOnce()
    expect(counts).toEqual({ acked: 1, retried: 1, snoozed: 0, dead: 0 })
    expect(await database.sql('SELECT n FROM effect')).toEqual([{ n: 1 }])
    expect(await database.sql('SELECT payload FROM sluice.message WHERE queue = $1', [queue])).toEqual([{ payload: 2 }])
  })
})
