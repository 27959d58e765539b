import { describe, expect } from 'vitest'
import { retryLater, snooze } from '../../../src/message.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { runOut } from '../../support/rows/claims.ts'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const EXPIRE = `UPDATE sluice.message SET expires_at = clock_timestamp() - interval '1 second' WHERE queue = $1 AND id = ANY ($2)`
const LEFT = 'SELECT id::text AS id FROM sluice.message WHERE queue = $1 ORDER BY id'
const DEAD = 'SELECT id::text AS id, reason, attempt FROM sluice.dead_letter WHERE queue = $1 ORDER BY id'

async function expire(database: TestDatabase, queue: string, ids: readonly string[]): Promise<void> {
  await database.sql(EXPIRE, [queue, ids])
}

for (const of of ['transactional', 'leased'] as const) {
  // The handlers here use nothing that only one mode has.
  const mode = of as 'transactional'
  describe(`in ${of} mode`, () => {
    test('the event of one that failed says when it is due, not when its policy would try it', async ({
      sluice,
      queue,
      log,
    }) => {
      await put(sluice, queue, [1], { ttl: '1h' })
      const [settled] = await sluice
        .pipeline(queue, { mode, retry: { kind: 'fixed', delay: '7d' } })
        .handle(() => {
          throw new Error('no')
        })
        .runOnce()
      const [{ retryInMs = 0 } = {}] = log.of('message.failed')
      expect(retryInMs).toBeGreaterThan(3_500_000)
      expect(retryInMs).toBeLessThanOrEqual(3_600_000)
      expect(settled?.outcome).toMatchObject({ kind: 'retryLater', afterMs: retryInMs })
    })

    test('one that expires before its next try opens its key by then', async ({ sluice, queue, database }) => {
      const handled: unknown[] = []
      await put(sluice, queue, ['short-lived'], { ttl: '1h', orderingKey: 'k' })
      await put(sluice, queue, ['next'], { orderingKey: 'k' })
      const pipeline = sluice.pipeline(queue, { mode }).handle(({ payload }) => {
        handled.push(payload)
        return payload === 'next' ? undefined : snooze({ after: '7d' })
      })
      await pipeline.runOnce()
      expect(handled).toEqual(['short-lived'])
      const waits = await database.sql(
        'SELECT FROM sluice.message WHERE queue = $1 AND due_at = expires_at AND expires_at IS NOT NULL',
        [queue],
      )
      expect(waits).toHaveLength(1)
      // An hour later.
      await database.sql(
        `UPDATE sluice.message SET due_at = due_at - interval '1 hour', expires_at = expires_at - interval '1 hour'
         WHERE queue = $1 AND expires_at IS NOT NULL`,
        [queue],
      )
      await database.sql(`UPDATE sluice.slot SET held = '{}' WHERE queue = $1`, [queue])
      await pipeline.runOnce()
      expect(handled).toEqual(['short-lived', 'next'])
    })

    test('what has expired is handed to no handler, and goes', async ({ sluice, queue, database, log }) => {
      const ids = await put(sluice, queue, ['old', 'new', 'older'], { ttl: '1h' })
      await expire(database, queue, [ids[0]!, ids[2]!])
      const handled: unknown[] = []
      const settled = await sluice
        .pipeline(queue, { mode })
        .handle(({ payload }) => void handled.push(payload))
        .runOnce()
      expect(handled).toEqual(['new'])
      expect(settled.map(({ message }) => message.id)).toEqual([ids[1]])
      expect(settled.counts).toEqual({ acked: 1, retried: 0, snoozed: 0, dead: 0 })
      expect(await database.sql(LEFT, [queue])).toEqual([])
      expect(await database.sql(DEAD, [queue])).toEqual([])
      const events = log.of('message.expired').toSorted((a, b) => Number(a.id) - Number(b.id))
      expect(events).toMatchObject([
        { queue, id: ids[0], type: null, attempt: 0 },
        { queue, id: ids[2], type: null, attempt: 0 },
      ])
      expect(events[0]!.expiredAt.getTime()).toBeLessThan(Date.now())
    })

    test('it becomes a dead letter where the queue says so, with no attempt counted', async ({
      sluice,
      queue,
      database,
    }) => {
      await database.sql(`INSERT INTO sluice.queue (queue, on_expiry) VALUES ($1, 'dead_letter')`, [queue])
      const ids = await put(sluice, queue, [1], { ttl: '1h' })
      await expire(database, queue, ids)
      await sluice
        .pipeline(queue, { mode })
        .handle(() => undefined)
        .runOnce()
      expect(await database.sql(DEAD, [queue])).toEqual([{ id: ids[0], reason: 'expired', attempt: 0 }])
      expect(await database.sql(LEFT, [queue])).toEqual([])
    })

    test('a batch of expired ones only is followed by the next at once', async ({ sluice, queue, database }) => {
      const ids = await put(
        sluice,
        queue,
        Array.from({ length: 30 }, () => 'old'),
        { ttl: '1h' },
      )
      await put(sluice, queue, ['new'])
      await expire(database, queue, ids)
      const handled: unknown[] = []
      const looking = startTestSluice(database, { pollInterval: '1m' })
      const pipeline = looking
        .pipeline(queue, { mode, batchSize: 10, concurrency: 10 })
        .handle(({ payload }) => void handled.push(payload))
        .start()
      await waitFor(async () => (await database.sql(LEFT, [queue])).length === 0, { what: 'the queue to be empty' })
      await pipeline.drain()
      expect(handled).toEqual(['new'])
    })

    test('handleBatch gets those that live, and is not called for none', async ({ sluice, queue, database }) => {
      const ids = await put(sluice, queue, [1, 2, 3], { ttl: '1h' })
      await expire(database, queue, [ids[1]!])
      const batches: unknown[] = []
      const collect = () =>
        sluice
          .pipeline(queue, { mode })
          .handleBatch((messages) => void batches.push(messages.map(({ payload }) => payload)))
          .runOnce()
      await collect()
      await expire(database, queue, await put(sluice, queue, [4], { ttl: '1h' }))
      await collect()
      expect(batches).toEqual([[1, 3]])
    })

    test('in hand a message does not expire', async ({ sluice, queue, database, log }) => {
      const ids = await put(sluice, queue, [1], { ttl: '1h' })
      const [begun, go] = [deferred(), deferred()]
      const ran = sluice
        .pipeline(queue, { mode })
        .handle(async () => {
          begun.resolve()
          await go.promise
        })
        .runOnce()
      await begun.promise
      if (of === 'leased') await expire(database, queue, ids)
      go.resolve()
      expect((await ran).counts.acked).toBe(1)
      expect(log.of('message.expired')).toEqual([])
    })

    test('one that fails after its life has ended is not tried again', async ({ sluice, queue, database, log }) => {
      const ids = await put(sluice, queue, [1], { ttl: '1h' })
      let calls = 0
      const run = () =>
        sluice
          .pipeline(queue, { mode })
          .handle(() => {
            calls += 1
            return retryLater({ after: '1h' })
          })
          .runOnce()
      await run()
      await expire(database, queue, ids)
      await database.sql('UPDATE sluice.message SET due_at = enqueued_at WHERE queue = $1', [queue])
      await run()
      expect(calls).toBe(1)
      expect(log.of('message.expired')).toMatchObject([{ id: ids[0], attempt: 1 }])
    })

    test('it holds its key no longer', async ({ sluice, queue, database }) => {
      const ids = await put(sluice, queue, ['old', 'new'], { orderingKey: 'key', ttl: '1h' })
      await expire(database, queue, [ids[0]!])
      const handled: unknown[] = []
      await sluice
        .pipeline(queue, { mode })
        .handle(({ payload }) => void handled.push(payload))
        .runOnce()
      expect(handled).toEqual(['new'])
    })

    test('deliveries get none', async ({ sluice, queue, database, log }) => {
      const ids = await put(sluice, queue, ['old'], { ttl: '1h' })
      await expire(database, queue, ids)
      await put(sluice, queue, ['new'])
      const arrived: unknown[] = []
      const subscription = sluice.deliveries(queue, { demand: 2, mode }).subscribe((delivery) => {
        arrived.push(delivery.message.payload)
        delivery.ack()
      })
      await log.first('message.expired')
      await waitFor(() => arrived.length > 0, { what: 'the delivery' })
      subscription.unsubscribe()
      expect(arrived).toEqual(['new'])
    })
  })
}

describe.each(['transactional', 'leased', 'claim', 'pop'] as const)('what has expired takes no tokens: by %s', (by) => {
  const payloadsOf = async (sluice: Sluice, queue: string): Promise<unknown[]> => {
    if (by === 'claim')
      return ((await sluice.claim(queue, { limit: 10 }))?.messages ?? []).map(({ payload }) => payload)
    if (by === 'pop') return (await sluice.pop(queue, { limit: 10 })).map(({ payload }) => payload)
    const handled: unknown[] = []
    await sluice
      .pipeline(queue, { mode: by as 'transactional', batchSize: 10 })
      .handle(({ payload }) => void handled.push(payload))
      .runOnce()
    return handled
  }

  test.for([
    ['of the queue', { rate: 2, rate_ms: 3_600_000 }, {}],
    ['of its tenant', { tenant_rate: 2, tenant_rate_ms: 3_600_000 }, { tenant: 'acme' }],
    ['of the queue, with a key', { rate: 2, rate_ms: 3_600_000 }, { orderingKey: 'k' }],
  ] as const)('%s', async ([, limits, options], { sluice, queue, database }) => {
    await setQueueColumns(database, queue, limits)
    const old = await put(sluice, queue, Array(25).fill('old'), { ...options, ttl: '1h' })
    await expire(database, queue, old)
    await put(sluice, queue, ['new', 'newer', 'over the rate'], options)
    const handled: unknown[] = []
    for (let claims = 0; claims < 3; claims += 1) handled.push(...(await payloadsOf(sluice, queue)))
    expect(handled).toEqual(by === 'claim' && 'orderingKey' in options ? ['new'] : ['new', 'newer'])
  })
})

describe('when it expires', () => {
  test.for(['transactional', 'leased'] as const)(
    'is known to a handler, in %s mode',
    async (mode, { sluice, queue }) => {
      await put(sluice, queue, ['mortal'], { ttl: '1h' })
      await put(sluice, queue, ['immortal'])
      const lives = new Map<unknown, number | undefined>()
      await sluice
        .pipeline(queue, { mode: mode as 'transactional' })
        .handle(({ payload, dueAt, expiresAt }) => {
          lives.set(payload, expiresAt === null ? undefined : expiresAt.getTime() - dueAt.getTime())
        })
        .runOnce()
      expect(lives).toEqual(
        new Map([
          ['mortal', 3_600_000],
          ['immortal', undefined],
        ]),
      )
    },
  )

  test('is known to whoever claims or pops, as the claim has lengthened it', async ({ sluice, queue }) => {
    await put(sluice, queue, [1], { ttl: '1m' })
    const claim = await sluice.claim(queue, { lease: '10m', grace: '5m' })
    const [message] = claim?.messages ?? []
    expect(message?.expiresAt?.getTime()).toBe(claim!.expiresAt.getTime() + 300_000)
    const got = await sluice.operate.claims.get(queue, claim!.id)
    expect(got.messages[0]?.expiresAt).toEqual(message?.expiresAt)
    await claim!.release()
    expect((await sluice.pop(queue))[0]?.expiresAt).toEqual(message?.expiresAt)
    await put(sluice, queue, [2])
    expect((await sluice.pop(queue))[0]?.expiresAt).toBeNull()
  })
})

describe('the views', () => {
  test('count what has expired apart from what is ready', async ({ sluice, queue, database }) => {
    const ids = await put(sluice, queue, [1, 2, 3], { ttl: '1h' })
    await put(sluice, queue, [4], { ttl: '1h', delay: '1h' })
    await expire(database, queue, ids.slice(0, 2))
    expect(await sluice.operate.queues.list({ queue })).toMatchObject([
      { ready: 1, scheduled: 1, expired: 2, inFlight: 0 },
    ])
    expect((await sluice.operate.messages.get(queue, ids[0]!))?.state).toBe('expired')
    expect(
      (await sluice.operate.messages.list({ queue, state: 'expired' })).messages.map(({ id }) => id).toSorted(),
    ).toEqual(ids.slice(0, 2).toSorted())
  })

  test('count what has expired in hand as in flight', async ({ sluice, queue, database }) => {
    const ids = await put(sluice, queue, [1, 2], { ttl: '1h' })
    const [begun, go] = [deferred(), deferred()]
    const ran = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 1 })
      .handle(async () => {
        begun.resolve()
        await go.promise
      })
      .runOnce()
    await begun.promise
    await expire(database, queue, ids)
    expect(await sluice.operate.queues.list({ queue })).toMatchObject([{ ready: 0, expired: 1, inFlight: 1 }])
    go.resolve()
    await ran
  })
})

describe('a claim', () => {
  test('gets what lives, and removes what has expired', async ({ sluice, queue, database }) => {
    const ids = await put(sluice, queue, [1, 2, 3], { ttl: '1h' })
    await expire(database, queue, ids.slice(0, 2))
    const claim = await sluice.claim(queue, { limit: 1 })
    expect(claim?.messages.map(({ id }) => id)).toEqual([ids[2]])
    expect(await database.sql(LEFT, [queue])).toEqual([{ id: ids[2] }])
    await claim?.settle(claim.messages)
  })

  test('that snoozes one does so until it expires at the latest, so that its key opens then', async ({
    sluice,
    queue,
    database,
  }) => {
    await put(sluice, queue, ['short-lived'], { ttl: '1h', orderingKey: 'k' })
    const claim = await sluice.claim(queue)
    await claim?.settle(claim.messages, snooze({ after: '7d' }))
    expect(
      await database.sql('SELECT due_at = expires_at AS "by then" FROM sluice.message WHERE queue = $1', [queue]),
    ).toEqual([{ 'by then': true }])
  })

  test('that finds only expired ones finds nothing, and has removed them', async ({ sluice, queue, database }) => {
    await database.sql(`INSERT INTO sluice.queue (queue, on_expiry) VALUES ($1, 'dead_letter')`, [queue])
    const plain = await put(sluice, queue, [1, 2], { ttl: '1h' })
    const keyed = await put(sluice, queue, [3, 4], { ttl: '1h', orderingKey: 'key' })
    await expire(database, queue, [...plain, ...keyed])
    expect(await sluice.pop(queue)).toEqual([])
    expect(await database.sql(LEFT, [queue])).toEqual([])
    const reasons = await database.sql<{ reason: string }>(DEAD, [queue])
    expect(reasons.map(({ reason }) => reason)).toEqual(Array.from({ length: 4 }, () => 'expired'))
  })

  test('clears thousands of them at once', async ({ sluice, queue, database }) => {
    await database.sql(
      `INSERT INTO sluice.message (queue, payload, expires_at) SELECT $1, '1', clock_timestamp() FROM generate_series(1, 3000)`,
      [queue],
    )
    const [live] = await put(sluice, queue, ['new'])
    expect((await sluice.pop(queue)).map(({ id }) => id)).toEqual([live])
    expect(await database.sql(LEFT, [queue])).toEqual([])
  })

  test('clears thousands of one key as well', async ({ sluice, queue, database }) => {
    await database.sql(
      `INSERT INTO sluice.message (queue, payload, ordering_key, expires_at)
       SELECT $1, '1', 'k', clock_timestamp() FROM generate_series(1, 3000)`,
      [queue],
    )
    const [live] = await put(sluice, queue, ['new'], { orderingKey: 'k' })
    expect((await sluice.pop(queue)).map(({ id }) => id)).toEqual([live])
    expect(await database.sql(LEFT, [queue])).toEqual([])
  })

  test('that ran out leaves an expired message to nobody', async ({ sluice, queue, database }) => {
    const ids = await put(sluice, queue, [1], { ttl: '1h' })
    const claim = await sluice.claim(queue)
    await expire(database, queue, ids)
    expect((await sluice.operate.claims.get(queue, claim!.id)).messages).toHaveLength(1)
    await runOut(database, queue, claim!.id)
    expect(await sluice.claim(queue)).toBeUndefined()
    expect(await database.sql(LEFT, [queue])).toEqual([])
  })
})

describe('the life of a message in a claim', () => {
  const lifeOf = async (database: TestDatabase, queue: string) => {
    const [row] = await database.sql<{ s: number }>(
      `SELECT round(extract(epoch FROM m.expires_at - c.claimed_at))::integer AS s
       FROM sluice.message m JOIN sluice.claim c ON c.queue = m.queue WHERE m.queue = $1`,
      [queue],
    )
    return row!.s
  }

  for (const [lease, grace, life] of [
    [777, 0, 777],
    [777, 23, 800],
    [121, 22, 143],
    [60, 30, 120],
  ] as const) {
    test(`of 120 s, a claim of ${lease} s and ${grace} s of grace: ${life} s`, async ({ sluice, queue, database }) => {
      await put(sluice, queue, [1], { ttl: '120s' })
      await sluice.claim(queue, { lease: `${lease}s`, grace: `${grace}s` })
      expect(await lifeOf(database, queue)).toBe(life)
    })
  }

  test('is lengthened by a renewal as the claim was told, and never shortened', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1], { ttl: '120s' })
    const claim = await sluice.claim(queue, { lease: '60s', grace: '100s' })
    expect(await lifeOf(database, queue)).toBe(160)
    await claim?.renew('200s')
    expect(await lifeOf(database, queue)).toBe(300)
    await claim?.renew('10s', 0)
    expect(await lifeOf(database, queue)).toBe(300)
  })

  test('that never expires stays so', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1])
    await sluice.claim(queue, { grace: '1h' })
    expect(await database.sql('SELECT expires_at FROM sluice.message WHERE queue = $1', [queue])).toEqual([
      { expires_at: null },
    ])
  })

  test('has a grace of at most 14 days', async ({ sluice, queue, database }) => {
    await expect(sluice.claim(queue, { grace: '15d' })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    const asked = database.sql(`SELECT FROM sluice.claim($1, grace => interval '-1 second')`, [queue])
    await expect(asked).rejects.toMatchObject({
      code: '22023',
      message: expect.stringMatching(/^grace: expected from zero/),
    })
  })
})
