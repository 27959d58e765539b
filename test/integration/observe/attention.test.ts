import { describe, expect } from 'vitest'
import { retryLater, snooze } from '../../../src/message.ts'
import { bury, register } from '../../support/rows/operations.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

describe('needs attention', () => {
  test('a worker that has a connection and writes no heartbeat, with what it has in flight', async ({
    database,
    queue,
  }) => {
    const { operate } = startTestSluice(database)
    await register(database, { name: 'hangs', queues: [queue], alive: true, inHand: 2 })
    expect((await operate.status({ queue })).attention).toEqual([])
    await database.sql(
      `UPDATE sluice.worker SET seen_at = clock_timestamp() - interval '3 minutes' WHERE name = 'hangs'`,
    )
    expect((await operate.status({ queue })).attention).toMatchObject([
      {
        kind: 'workers.stale',
        worker: 'hangs',
        messages: 2,
        text: expect.stringMatching(/^no heartbeat for 3m.*2 messages in/),
      },
    ])
  })

  test('and what others have settled since is not in flight, although its record names it', async ({
    database,
    queue,
  }) => {
    const { operate } = startTestSluice(database)
    await register(database, { name: `stands.${queue}`, queues: [queue], alive: true })
    await database.sql(
      `INSERT INTO sluice.batch_record (worker_id, id, queue, message_ids, attempts)
       SELECT w.id, 1, $1, ARRAY[9223372036854775806], '{0}' FROM sluice.worker w WHERE w.name = $2`,
      [queue, `stands.${queue}`],
    )
    expect(await operate.queues.list({ queue })).toMatchObject([{ inFlight: 0 }])
    expect(await operate.workers.inFlight({ queue })).toEqual([])
    expect((await operate.workers.list()).find(({ name }) => name === `stands.${queue}`)).toMatchObject({ inFlight: 0 })
  })

  test('a queue in which nothing is in flight, although messages are ready and a worker consumes it', async ({
    database,
    queue,
  }) => {
    const sluice = startTestSluice(database)
    await register(database, { name: `idles.${queue}`, queues: [queue], alive: true })
    await put(sluice, queue, [1, 2])
    expect((await sluice.operate.status({ queue })).attention).toEqual([])
    await database.sql(`UPDATE sluice.message SET due_at = clock_timestamp() - interval '5 minutes' WHERE queue = $1`, [
      queue,
    ])
    expect((await sluice.operate.status({ queue })).attention).toMatchObject([
      {
        kind: 'queues.stuck',
        queue,
        messages: 2,
        text: expect.stringMatching(/2 ready, the oldest for 5m.*although 1 live worker consumes it/),
      },
    ])
  })

  test('messages that wait for a limit, of the queue or of tenants, and then the queue is not stuck', async ({
    database,
    queue,
  }) => {
    const sluice = startTestSluice(database)
    await register(database, { name: `works.${queue}`, queues: [queue], alive: true })
    await sluice.operate.queues.settings.set(queue, { tenantConcurrency: 1, rate: { limit: 2, per: '1h' } })
    await put(sluice, queue, [1, 2], { tenant: 'acme' })
    await put(sluice, queue, [3, 4], { tenant: 'umbrella' })
    expect((await sluice.operate.status({ queue })).attention).toEqual([])
    expect((await sluice.claim(queue))?.messages).toMatchObject([{ tenant: 'acme' }, { tenant: 'umbrella' }])
    await database.sql(
      `UPDATE sluice.message SET due_at = due_at - interval '5 minutes' WHERE queue = $1 AND lease IS NULL`,
      [queue],
    )
    expect((await sluice.operate.status({ queue })).attention.map(({ kind, text }) => [kind, text])).toEqual([
      ['queues.limited', '2 ready wait for the limit: rate 2 per 1h'],
      ['queues.limited', '2 ready wait for the limit of 2 tenants, such as acme'],
    ])
    const limits = await sluice.operate.queues.limits({ queue })
    expect(limits).toMatchObject([
      { tenant: null, concurrency: null, inFlight: 2, rate: 2, rateIntervalMs: 3_600_000, ready: 2 },
      { tenant: 'acme', concurrency: 1, inFlight: 1, rate: null, tokens: null, ready: 1 },
      { tenant: 'umbrella', concurrency: 1, inFlight: 1, rate: null, tokens: null, ready: 1 },
    ])
    expect(limits[0]?.tokens).toBeLessThan(1)
  })
})

describe('of one queue', () => {
  test('a worker has what it has in flight of this queue alone', async ({ database, sluice, queue }) => {
    const other = `${queue}.other`
    await register(database, { name: queue, queues: [other, queue], alive: false, inHand: 2 })
    expect((await sluice.operate.status({ queue: other })).workers).toMatchObject([{ name: queue, inFlight: 2 }])
    const { workers, attention } = await sluice.operate.status({ queue })
    expect(workers).toMatchObject([{ name: queue, inFlight: 0 }])
    expect(attention).toEqual([])
    expect(
      (await sluice.operate.status()).attention.filter((one) => 'worker' in one && one.worker === queue),
    ).toMatchObject([
      { kind: 'workers.gone', severity: 'wrong', messages: 2, text: expect.stringMatching(/^gone with 2 messages in/) },
    ])
  })

  test('what is wrong comes before what may be meant', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1])
    await bury(database, { queue })
    await sluice.operate.queues.pause(queue, { by: 'ada', reason: 'a trial' })
    expect((await sluice.operate.status({ queue })).attention).toMatchObject([
      { kind: 'queues.dead_letters', severity: 'wrong', subject: queue, queue, messages: 1 },
      { kind: 'queues.paused', severity: 'watch', text: expect.stringMatching(/^paused .* by ada: a trial; 1 ready$/) },
    ])
  })

  test('a group that is paused is no paused queue', async ({ sluice, queue }) => {
    await sluice.streams.set(queue)
    await sluice.groups.set(queue, 'g')
    await sluice.groups.pause(queue, 'g')
    const { attention, groups } = await sluice.operate.status({ queue: `${queue}:g` })
    expect(groups).toHaveLength(1)
    expect(attention).toMatchObject([{ kind: 'groups.paused', stream: queue, group: 'g' }])
  })
})

describe.each(['transactional', 'leased'] as const)('in %s mode', (mode) => {
  test('keys that wait for a failed message, with their number and the oldest error', async ({
    database,
    sluice,
    queue,
  }) => {
    const options = { mode, concurrency: 1, batchSize: 1, retry: { kind: 'fixed', delay: '1h' } } as const
    const run = () =>
      sluice
        .pipeline(queue, options as { mode: 'leased' })
        .handle(({ payload }) => {
          if (typeof payload !== 'string') return snooze({ after: '1h' })
          throw new Error(payload)
        })
        .runOnce()
    const [first] = await put(sluice, queue, ['no card', 1, 1], { orderingKey: 'a' })
    await run()
    await put(sluice, queue, ['no money', 1], { orderingKey: 'b' })
    await run()
    // Nothing waits behind the one, and the other was snoozed.
    await put(sluice, queue, ['no matter'], { orderingKey: 'c' })
    await put(sluice, queue, [1, 1], { orderingKey: 'd' })
    await run()
    const { attention } = await sluice.operate.status({ queue })
    expect(attention.filter(({ kind }) => kind === 'queues.held')).toMatchObject([
      {
        severity: 'watch',
        queue,
        messages: 3,
        text: expect.stringMatching(
          /^3 due messages of 2 ordering keys wait; "a" longest, for message \d+, which failed .* ago: Error: no card/,
        ),
        remedy: `npx sluice explain ${queue} ${first}`,
      },
    ])
    const rows = await database.sql(
      'SELECT ordering_key, attempt, messages::integer FROM sluice.held_keys WHERE queue = $1 ORDER BY message_id',
      [queue],
    )
    expect(rows).toEqual([
      { ordering_key: 'a', attempt: 1, messages: 2 },
      { ordering_key: 'b', attempt: 1, messages: 1 },
      { ordering_key: 'd', attempt: 0, messages: 1 },
    ])
  })

  test('what waits for a failed message of its key is held, and neither ready nor the oldest that is', async ({
    database,
    queue,
  }) => {
    const sluice = startTestSluice(database)
    await put(sluice, queue, ['fails', 'waits', 'waits'], { orderingKey: 'a' })
    await put(sluice, queue, ['other', 'other'], { orderingKey: 'b' })
    await put(sluice, queue, ['plain'])
    const options = { mode, concurrency: 1, batchSize: 1, retry: { kind: 'fixed', delay: '1h' } } as const
    const failing = sluice.pipeline(queue, options as { mode: 'leased' }).handle(({ payload }) => {
      if (payload === 'fails') throw new Error('no')
      return snooze({ after: '1h' })
    })
    await failing.runOnce()
    // 'other' and 'plain' are snoozed as well: the one behind 'other' waits for it.
    expect(await sluice.operate.queues.list({ queue })).toMatchObject([
      { ready: 0, held: 3, scheduled: 2, retrying: 1, oldestReadyAgeMs: null },
    ])
    await put(sluice, queue, ['ready'], { orderingKey: 'c' })
    const [counts] = await sluice.operate.queues.list({ queue })
    expect(counts).toMatchObject({ ready: 1, held: 3 })
    const [oldest] = await sluice.operate.messages.list({ queue, orderingKey: 'c' }).then(({ messages }) => messages)
    expect(counts?.oldestReadyAgeMs).toBeLessThanOrEqual(-(oldest?.dueInMs ?? 0))
  })
})

test('what may expire and was given back is held as well in a queue that is handled in order', async ({
  sluice,
  queue,
}) => {
  await put(sluice, queue, ['fails'])
  await put(sluice, queue, ['waits'], { ttl: '1d' })
  const claim = await sluice.claim(queue, { limit: 2 })
  await claim?.release()
  await sluice
    .pipeline(queue, { ordered: true })
    .handle(() => retryLater({ after: '1h' }))
    .runOnce()
  expect(await sluice.operate.queues.list({ queue })).toMatchObject([{ ready: 0, held: 1, retrying: 1 }])
})
