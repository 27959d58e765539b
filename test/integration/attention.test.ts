import { describe, expect } from 'vitest'
import { readStatus } from '../../src/cli/show/status.ts'
import { snooze } from '../../src/message.ts'
import { register } from '../support/rows/operations.ts'
import { put, startTestSluice, test } from '../support/sluice.ts'

describe('needs attention', () => {
  test('a worker that has a connection and writes no heartbeat, with what it has in flight', async ({
    database,
    queue,
  }) => {
    const { operate } = startTestSluice(database)
    await register(database, { name: 'hangs', queues: [queue], alive: true, inHand: 2 })
    expect((await readStatus(operate, queue)).needsAttention).toEqual([])
    await database.sql(
      `UPDATE sluice.worker SET seen_at = clock_timestamp() - interval '3 minutes' WHERE name = 'hangs'`,
    )
    expect((await readStatus(operate, queue)).needsAttention).toMatchObject([
      {
        kind: 'workerSilent',
        worker: 'hangs',
        messages: 2,
        text: expect.stringMatching(/silent for 3m.*2 messages in/),
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
    expect((await readStatus(sluice.operate, queue)).needsAttention).toEqual([])
    await database.sql(`UPDATE sluice.message SET due_at = clock_timestamp() - interval '5 minutes' WHERE queue = $1`, [
      queue,
    ])
    expect((await readStatus(sluice.operate, queue)).needsAttention).toMatchObject([
      {
        kind: 'queueStuck',
        queue,
        messages: 2,
        text: expect.stringMatching(/2 ready, the oldest for 5m.*1 live worker/),
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
    expect((await readStatus(sluice.operate, queue)).needsAttention).toEqual([])
    expect((await sluice.claim(queue))?.messages).toMatchObject([{ tenant: 'acme' }, { tenant: 'umbrella' }])
    await database.sql(
      `UPDATE sluice.message SET due_at = due_at - interval '5 minutes' WHERE queue = $1 AND lease IS NULL`,
      [queue],
    )
    expect((await readStatus(sluice.operate, queue)).needsAttention.map(({ kind, text }) => [kind, text])).toEqual([
      ['limited', `${queue}: 2 ready wait for the limit: rate 2 per 1h`],
      ['limited', `${queue}: 2 ready wait for the limit of 2 tenants, such as acme; see: sluice.limits`],
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

describe.each(['transactional', 'leased'] as const)('in %s mode', (mode) => {
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
