import { describe, expect } from 'vitest'
import { Allowance } from '../../src/claim/allowance.ts'
import { Limiter } from '../../src/claim/limiter.ts'
import { executeOn } from '../../src/connection/open-client.ts'
import { Settings } from '../../src/settings/settings.ts'
import type { Sluice } from '../../src/sluice.ts'
import { lockPermits, prepareClaim, renewPermitted } from '../../src/table/limit/limits.ts'
import type { Execute } from '../../src/table/statement.ts'
import { type Edit, edited } from '../support/rows/edited-functions.ts'
import { THIS_DATABASE } from '../support/rows/flag.ts'
import { setQueueColumns } from '../support/rows/queue-settings.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { put, test } from '../support/sluice.ts'
import { PAUSED_EMPTYING, PAUSED_LEASING, PAUSED_LOCKING, PERMITS_TRUSTED } from '../support/twins/functions.ts'
import { waitFor } from '../support/wait.ts'

const FROM_START = { turn: '', apart: false }

/** Runs statements in a session of its own. */
async function onSession<T>(database: TestDatabase, work: (execute: Execute) => Promise<T>): Promise<T> {
  const client = await database.pool.connect()
  try {
    return await work(executeOn(client))
  } finally {
    client.release()
  }
}

/** Takes all permits of a queue in the transaction of a session. */
function lock(database: TestDatabase, queue: string, most: number): Promise<number> {
  return onSession(database, async (execute) => {
    await prepareClaim(execute, queue, most, FROM_START)
    return lockPermits(execute, queue, most)
  })
}

test('a claim in a savepoint of an open transaction keeps nobody from the permits that are left', async ({
  database,
  queue,
  sluice,
}) => {
  await setQueueColumns(database, queue, { concurrency: 3 })
  await put(sluice, queue, [1])
  await sluice.pop(queue)
  await put(sluice, queue, [2, 3, 4, 5])
  const client = await database.pool.connect()
  try {
    await client.query('BEGIN; SAVEPOINT a')
    await client.query('SELECT FROM sluice.claim($1, 1)', [queue])
    // So that its number is not above all that a snapshot knows.
    await database.sql('SELECT pg_current_xact_id()')
    const claimed = async () => (await sluice.claim(queue, { limit: 1 }))?.messages.length
    expect([await claimed(), await claimed(), await claimed()]).toEqual([1, 1, undefined])
  } finally {
    await client.query('ROLLBACK')
    client.release()
  }
  expect((await sluice.claim(queue, { limit: 10 }))?.messages).toHaveLength(1)
})

describe('a permit', () => {
  test('is held by a lease until that is settled, or has run out and somebody notes it', async ({
    database,
    queue,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { concurrency: 1 })
    const [id = ''] = await put(sluice, queue, [1, 2])
    const lease = String(7n << 32n)
    const leaseUntil = (due: string) =>
      database.sql(`UPDATE sluice.message SET lease = $2, due_at = clock_timestamp() + $3::interval WHERE id = $1`, [
        id,
        lease,
        due,
      ])
    expect(await lock(database, queue, 1)).toBe(1)
    await leaseUntil('1 hour')
    await database.sql('UPDATE sluice.permit SET message_id = $2, lease = $3 WHERE queue = $1', [queue, id, lease])
    expect(await lock(database, queue, 1)).toBe(0)
    // It has run out, and a renewal that comes in time has the row locked.
    await leaseUntil('-1 second')
    const renewal = await database.pool.connect()
    try {
      await renewal.query('BEGIN')
      await renewal.query('SELECT FROM sluice.message WHERE id = $1 FOR UPDATE', [id])
      expect(await lock(database, queue, 1)).toBe(0)
      await renewal.query('ROLLBACK')
    } finally {
      renewal.release()
    }
    expect(await lock(database, queue, 1)).toBe(1)
    // From then on the permit is another's, and a renewal comes too late.
    const renew = () => onSession(database, (execute) => renewPermitted(execute, queue, [{ id, lease }], 60_000))
    expect(await renew()).toEqual([])
    await leaseUntil('1 second')
    expect(await renew()).toEqual([id])
  })

  test("is nobody else's while a transaction has it, and free when that ends", async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { concurrency: 2 })
    await put(sluice, queue, [1, 2, 3])
    const batch = await database.pool.connect()
    try {
      expect(await lock(database, queue, 2)).toBe(2)
      await batch.query('BEGIN')
      expect(await lockPermits(executeOn(batch), queue, 1)).toBe(1)
      expect(await lock(database, queue, 2)).toBe(1)
      await batch.query('ROLLBACK')
    } finally {
      batch.release(true)
    }
    expect(await lock(database, queue, 2)).toBe(2)
  })

  test('is there no more once the limit is lower, and rows of it are deleted', async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { concurrency: 4 })
    await put(sluice, queue, [1, 2, 3, 4])
    expect(await lock(database, queue, 4)).toBe(4)
    await setQueueColumns(database, queue, { concurrency: 2 })
    expect(await onSession(database, (execute) => lockPermits(execute, queue, 4))).toBe(0)
    expect(await lock(database, queue, 4)).toBe(2)
    expect(await database.sql('SELECT FROM sluice.permit WHERE queue = $1', [queue])).toHaveLength(2)
  })

  test('is made under a number that is missing, where a lease keeps one behind it', async ({
    database,
    queue,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { concurrency: 3 })
    const [id] = await put(sluice, queue, [1, 2, 3, 4])
    await database.sql(`UPDATE sluice.message SET lease = 42, due_at = now() + interval '1 hour' WHERE id = $1`, [id])
    await database.sql(`INSERT INTO sluice.permit (queue, tenant, n, message_id, lease) VALUES ($1, '', 3, $2, 42)`, [
      queue,
      id,
    ])
    expect(await lock(database, queue, 4)).toBe(2)
    const rows = await database.sql('SELECT n FROM sluice.permit WHERE queue = $1 ORDER BY n', [queue])
    expect(rows.map(({ n }) => n)).toEqual([1, 2, 3])
  })
})

test('leases are renewed in a queue with a limit', async ({ database, queue, sluice, log }) => {
  await setQueueColumns(database, queue, { concurrency: 1 })
  await put(sluice, queue, [1])
  const ends: Date[] = []
  const { counts } = await sluice
    .pipeline(queue, { mode: 'leased', lease: '1s' })
    .handle(async (_, context) => {
      ends.push(context.leaseUntil)
      await waitFor(() => context.leaseUntil > (ends[0] ?? new Date(0)), { what: 'the lease to be renewed' })
    })
    .runOnce()
  expect(counts.acked).toBe(1)
  expect(log.of('lease.lost')).toEqual([])
})

describe('a lease that is written into a permit between the snapshot of another claim and its lock', () => {
  const MINE = '1'
  const THEIRS = String(7n << 32n)

  /** Runs the statement, and lets another claim take the second permit when it has looked and not locked. */
  async function beside(
    { database, queue, sluice }: { database: TestDatabase; queue: string; sluice: Sluice },
    edits: readonly Edit[],
    text: string,
    params: readonly unknown[] = [],
  ) {
    await setQueueColumns(database, queue, { concurrency: 3 })
    await using _ = await edited(database, edits)
    const other = await database.pool.connect()
    try {
      const [theirs] = await put(sluice, queue, [1])
      await database.sql(
        `INSERT INTO sluice.permit (queue, tenant, n, message_id, lease) VALUES ($1, '', 1, NULL, NULL), ($1, '', 2, $2, $3), ($1, '', 3, NULL, NULL)`,
        edits.includes(PAUSED_EMPTYING) ? [queue, 0, -42] : [queue, null, null],
      )
      await other.query('SELECT pg_advisory_lock(4242)')
      const answer = database.sql(text, [queue, ...params])
      await waitFor(
        async () =>
          (
            await database.sql(
              `SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND NOT l.granted AND l.objid = 4242 AND ${THIS_DATABASE}`,
            )
          ).length > 0,
        { what: 'it to have looked' },
      )
      await other.query('BEGIN')
      await other.query(`UPDATE sluice.message SET lease = $2, due_at = now() + interval '1 h' WHERE id = $1`, [
        theirs,
        THEIRS,
      ])
      await other.query('UPDATE sluice.permit SET message_id = $2, lease = $3 WHERE queue = $1 AND n = 2', [
        queue,
        theirs,
        THEIRS,
      ])
      await other.query('COMMIT')
      await other.query('SELECT pg_advisory_unlock(4242)')
      return await answer
    } finally {
      other.release(true)
    }
  }

  const leasesOf = async (database: TestDatabase, queue: string) =>
    (await database.sql('SELECT lease FROM sluice.permit WHERE queue = $1 ORDER BY n', [queue])).map(({ lease }) =>
      lease === null ? null : String(lease),
    )

  test('is not overwritten', async ({ database, queue, sluice }) => {
    const text = `SELECT sluice_private.lease_permits($1, '', ARRAY[101, 102]::bigint[], $2)`
    await beside({ database, queue, sluice }, [PAUSED_LEASING], text, [MINE])
    expect(await leasesOf(database, queue)).toEqual([MINE, THEIRS, MINE])
  })

  test('is no permit for the other', async ({ database, queue, sluice }) => {
    const text = `SELECT sluice_private.lock_permits($1, '', 3) AS n`
    expect(await beside({ database, queue, sluice }, [PAUSED_LOCKING], text)).toEqual([{ n: 2 }])
  })

  const EMPTY = `SELECT sluice_private.empty_permits($1, '', 3, 3, true) AS n`

  test('stays in a permit that was to be emptied', async ({ database, queue, sluice }) => {
    expect(await beside({ database, queue, sluice }, [PAUSED_EMPTYING], EMPTY)).toEqual([{ n: 0 }])
    expect(await leasesOf(database, queue)).toEqual([null, THEIRS, null])
  })

  test('is lost if whoever empties it does not look once more', async ({ database, queue, sluice }) => {
    const answer = await beside({ database, queue, sluice }, [PAUSED_EMPTYING, PERMITS_TRUSTED], EMPTY)
    expect(answer).toEqual([{ n: 1 }])
  })
})

describe('tokens', () => {
  test('are asked for once while there are none', async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { rate: 1, rate_ms: 3_600_000 })
    await put(sluice, queue, [1, 2])
    const settings = new Settings()
    await onSession(database, async (execute) => {
      await settings.load(execute)
      let asked = 0
      const counting: Execute = (statement, params) => {
        asked += 1
        return execute(statement, params)
      }
      const limiter = new Limiter(queue, { execute: counting }, settings)
      const demand = { draining: new AbortController().signal, hints: 0, sent() {}, answered() {}, opened() {} }
      const allow = () => limiter.admit(demand, 10, 1)
      const first = await allow()
      expect(first).toBeInstanceOf(Allowance)
      expect(asked).toBe(1)
      for (let at = 0; at < 50; at += 1) {
        const refused = await allow()
        expect(refused).toEqual({ kind: 'sleep', nextDueMs: expect.any(Number), partial: false })
        expect((refused as { nextDueMs: number }).nextDueMs).toBeGreaterThan(3_500_000)
      }
      expect(asked).toBe(2)
    })
  })

  test('that a claim did not use go back', async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { rate: 5, rate_ms: 3_600_000, tenant_rate: 2, tenant_rate_ms: 3_600_000 })
    await put(sluice, queue, ['a', 'a', 'a'], { tenant: 'a' })
    const tokens = async () =>
      database.sql<{ tenant: string | null; tokens: number }>(
        'SELECT tenant, floor(tokens)::integer AS tokens FROM sluice.limits WHERE queue = $1 ORDER BY tenant NULLS FIRST',
        [queue],
      )
    const settings = new Settings()
    await onSession(database, async (execute) => {
      await settings.load(execute)
      const limiter = new Limiter(queue, { execute }, settings)
      const demand = { draining: new AbortController().signal, hints: 0, sent() {}, answered() {}, opened() {} }
      const allowed = await limiter.admit(demand, 10, 1)
      if (!(allowed instanceof Allowance)) throw new TypeError('expected to be allowed something')
      expect(await tokens()).toEqual([
        { tenant: null, tokens: 3 },
        { tenant: 'a', tokens: 0 },
      ])
      allowed.close()
      await waitFor(async () => (await tokens())[1]?.tokens === 2, { what: 'the tokens to be back' })
      expect((await tokens())[0]?.tokens).toBe(5)
    })
  })

  test('are not waited for where an application has the bucket in a transaction', async ({
    database,
    queue,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { rate: 100 })
    await put(sluice, queue, [1, 2])
    const application = await database.pool.connect()
    try {
      await application.query('BEGIN')
      const popped = await application.query('SELECT * FROM sluice.pop($1)', [queue])
      expect(popped.rows).toHaveLength(1)
      const busy = await onSession(database, (execute) => prepareClaim(execute, queue, 1, FROM_START))
      expect(busy.granted).toBe(0)
      expect(busy.waitMs).toBeLessThan(10)
      await application.query('COMMIT')
    } finally {
      application.release()
    }
    const free = await onSession(database, (execute) => prepareClaim(execute, queue, 1, FROM_START))
    expect(free.granted).toBe(1)
  })
})

describe('while an application has claimed in a transaction that goes on', () => {
  /** Runs the work beside a transaction that has claimed a message. */
  async function besideClaim(database: TestDatabase, queue: string, work: () => Promise<void>): Promise<void> {
    const application = await database.pool.connect()
    try {
      await application.query('BEGIN')
      expect((await application.query(`SELECT * FROM sluice.claim($1, 1)`, [queue])).rows).toHaveLength(1)
      await work()
      await application.query('ROLLBACK')
    } finally {
      application.release(true)
    }
  }

  const prepare = (database: TestDatabase, queue: string) =>
    onSession(database, async (execute) => {
      const sentAtMs = performance.now()
      const prepared = await prepareClaim(execute, queue, 100, FROM_START)
      return { ...prepared, tookMs: performance.now() - sentAtMs }
    })

  test.for([{ tenant_concurrency: 2 }, { tenant_rate: 10 }])(
    'other tenants have their turn at once, with %o',
    async (limits, { database, queue }) => {
      await setQueueColumns(database, queue, limits)
      await database.sql(
        `INSERT INTO sluice.message (queue, payload, tenant) SELECT $1, '{}', format('tenant %s', s) FROM generate_series(1, 300) AS s`,
        [queue],
      )
      await besideClaim(database, queue, async () => {
        const { granted, tookMs } = await prepare(database, queue)
        expect(granted).toBeGreaterThan(85)
        expect(tookMs).toBeLessThan(5_000)
      })
    },
  )

  test('nobody waits for the permits that it makes, and whoever needs some tries again', async ({
    database,
    queue,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { concurrency: 2 })
    await put(sluice, queue, [1, 2])
    await besideClaim(database, queue, async () => {
      expect(await prepare(database, queue)).toMatchObject({ granted: 0, waitMs: 0 })
    })
    expect(await prepare(database, queue)).toMatchObject({ granted: 2 })
  })

  test('a worker asks after longer and longer times', async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { rate: 1_000, tenant_concurrency: 2 })
    await put(sluice, queue, [1, 2], { tenant: 'a' })
    await besideClaim(database, queue, () =>
      onSession(database, async (execute) => {
        const settings = new Settings()
        await settings.load(execute)
        const limiter = new Limiter(queue, { execute }, settings)
        const demand = { draining: new AbortController().signal, hints: 0, sent() {}, answered() {}, opened() {} }
        let waitMs = 0
        await waitFor(
          async () => {
            const refused = await limiter.admit(demand, 10, 1)
            expect(refused).toEqual({ kind: 'sleep', nextDueMs: expect.any(Number), partial: false })
            waitMs = Math.max(waitMs, (refused as { nextDueMs: number }).nextDueMs)
            return waitMs >= 40
          },
          { what: 'it to wait for longer' },
        )
        expect(waitMs).toBeLessThanOrEqual(100)
      }),
    )
  })
})

test('making permits does not meet maintenance, whatever the name of the queue', async ({
  database,
  queue,
  sluice,
}) => {
  await setQueueColumns(database, queue, { concurrency: 2 })
  await put(sluice, queue, [1])
  const other = await database.pool.connect()
  try {
    await other.query('BEGIN')
    await other.query('SELECT pg_advisory_xact_lock(746503, n) FROM unnest(ARRAY[0, hashtext($1)]) AS n', [queue])
    expect(await lock(database, queue, 1)).toBe(1)
  } finally {
    other.release(true)
  }
})
