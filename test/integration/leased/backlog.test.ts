import { describe, expect } from 'vitest'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const HOUR_US = 3_600_000_000

describe('a leased pipeline', () => {
  test('P2, P3: of 400 messages tries those that fail until their tries are used up, two at a time', async ({
    sluice,
    queue,
    database,
  }) => {
    const payloads = Array.from({ length: 400 }, (_, at) => at)
    await put(sluice, queue, payloads)
    const tries = new Map<number, number[]>()
    let calls = 0
    const leased: number[] = []
    let running = 0
    let most = 0
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 2, maxAttempts: 3, retry: { kind: 'fixed', delay: 0 } })
      .handle(async ({ payload }, { attempt }) => {
        running += 1
        calls += 1
        most = Math.max(most, running)
        const n = Number(payload)
        tries.set(n, [...(tries.get(n) ?? []), attempt])
        if (n % 100 === 0) leased.push(...(await leasedNow()))
        running -= 1
        if (n % 2 === 1) throw new Error('odd')
      })
      .start()
    const leasedNow = async () => {
      const rows = await database.sql<{ n: number }>(
        'SELECT count(*)::integer AS n FROM sluice.message WHERE queue = $1 AND lease > 0',
        [queue],
      )
      return rows.map(({ n }) => n)
    }
    await waitFor(() => calls >= 800, { what: 'all tries', timeoutMs: 100_000 })
    await pipeline.drain()
    expect(await waiting(database, queue)).toEqual([])
    const expected = payloads.map((n) => [n, n % 2 === 0 ? [1] : [1, 2, 3]])
    expect([...tries].toSorted(([a], [b]) => a - b)).toEqual(expected)
    expect(most).toBe(2)
    // Those whose handlers run, and as many that wait to be settled.
    expect(Math.max(...leased)).toBeLessThanOrEqual(4)
    const dead = await database.sql('SELECT payload FROM sluice.dead_letter WHERE queue = $1 ORDER BY id', [queue])
    expect(dead.map(({ payload }) => payload)).toEqual(payloads.filter((n) => n % 2 === 1))
  })

  test('handles a backlog of 20,000 once', async ({ sluice, queue, database }) => {
    await database.sql(`SELECT sluice.enqueue($1, to_jsonb(n)) FROM generate_series(1, 20000) n`, [queue])
    const handled: unknown[] = []
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 500 })
      .handle(({ payload }) => void handled.push(payload))
      .start()
    await waitFor(() => handled.length >= 20_000, { what: 'all messages to be handled', timeoutMs: 100_000 })
    await pipeline.drain()
    expect(await waiting(database, queue)).toEqual([])
    expect(handled).toHaveLength(20_000)
    expect(new Set(handled).size).toBe(20_000)
  })

  test('is stopped by its own handler, whose message goes back', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1, 2, 3])
    const handled: unknown[] = []
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 1 })
      .handle(async ({ payload }, { signal }) => {
        handled.push(payload)
        if (payload !== 2) return
        void pipeline.stop()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
      })
      .start()
    await pipeline.ended
    expect(handled).toEqual([1, 2])
    expect(await waiting(database, queue)).toEqual([
      { payload: 2, attempt: 0, leased: false, due: true },
      { payload: 3, attempt: 0, leased: false, due: true },
    ])
  })

  test('is drained by its own handler, whose message is settled', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1, 2, 3])
    const handled: unknown[] = []
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 1 })
      .handle(({ payload }) => {
        handled.push(payload)
        if (payload === 2) void pipeline.drain()
      })
      .start()
    await pipeline.ended
    expect(handled).toEqual([1, 2])
    expect(await waiting(database, queue)).toEqual([{ payload: 3, attempt: 0, leased: false, due: true }])
  })

  test('waits longer after each failure', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1])
    const hours: number[] = []
    for (let tries = 0; tries < 3; tries++) {
      await sluice
        .pipeline(queue, { mode: 'leased', retry: { kind: 'exponential', delay: '1h', maxDelay: '1d', jitter: 0 } })
        .handle(() => {
          throw new Error('no luck')
        })
        .runOnce()
      const [row] = await database.sql<{ us: string }>(
        `UPDATE sluice.message m SET due_at = clock_timestamp() FROM sluice.message old
         WHERE m.queue = $1 AND old.queue = m.queue AND old.id = m.id
         RETURNING (extract(epoch FROM old.due_at - old.failed_at) * 1000000)::bigint::text AS us`,
        [queue],
      )
      hours.push(Math.round(Number(row?.us) / HOUR_US))
    }
    expect(hours).toEqual([1, 2, 4])
  })

  test('P5: that is idle asks for nothing, and begins when it is told of a message', async ({ queue, database }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    const handled = deferred<unknown>()
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(({ payload }) => handled.resolve(payload))
      .start()
    await raisedFlag(database, queue)
    await put(sluice, queue, ['told'])
    const told = await Promise.race([handled.promise, waitFor(() => false, { what: 'the message', timeoutMs: 30_000 })])
    expect(told).toBe('told')
    await pipeline.drain()
  })
})

function waiting(database: { sql: (text: string, params: unknown[]) => Promise<unknown[]> }, queue: string) {
  return database.sql(
    `SELECT payload, attempt, lease IS NOT NULL AS leased, due_at <= clock_timestamp() AS due
     FROM sluice.message WHERE queue = $1 ORDER BY id`,
    [queue],
  )
}
