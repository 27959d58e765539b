import { describe, expect } from 'vitest'
import { explain } from '../support/plans/explain.ts'
import { recordStatements, type SentStatement } from '../support/plans/statements.ts'
import { keysOf } from '../support/rows/claim-session.ts'
import { setQueueColumns } from '../support/rows/queue-settings.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test as base } from '../support/servers/undisturbed.ts'
import { put, startTestSluice } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

let queues = 0

/** What a claim may pass over depends on what runs on the whole server. */
const test = base
  .extend('queue', () => `limited.${++queues}`)
  .extend('sluice', ({ database }) => startTestSluice(database))

/** Ten thousand tenants with two messages each, and one with many. */
async function fill(database: TestDatabase, queue: string): Promise<void> {
  await database.sql(
    `INSERT INTO sluice.message (queue, payload, tenant)
     SELECT $1, '{}', format('tenant %s', s % 10000) FROM generate_series(1, 20000) AS s`,
    [queue],
  )
  await database.sql(
    `INSERT INTO sluice.message (queue, payload, tenant) SELECT $1, '{}', 'tenant burst' FROM generate_series(1, 20000)`,
    [queue],
  )
}

/** The fewest pages of a statement that runs three times in a session, its functions included: it may read the catalogs as well. */
async function pagesOf(database: TestDatabase, text: string): Promise<number> {
  const client = await database.pool.connect()
  try {
    let pages = Number.POSITIVE_INFINITY
    for (let run = 0; run < 3; run += 1) {
      await client.query('BEGIN')
      const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`)
      await client.query('ROLLBACK')
      const plan = rows[0]['QUERY PLAN'][0].Plan
      pages = Math.min(pages, plan['Shared Hit Blocks'] + plan['Shared Read Blocks'])
    }
    return pages
  } finally {
    client.release()
  }
}

const prepare = (queue: string, turn = 'tenant 5') =>
  `SELECT * FROM sluice_private.prepare_claim('${queue}', 10, '${turn}', false)`
const lock = (queue: string) => `
SELECT l.* FROM sluice_private.prepare_claim('${queue}', 10, 'tenant 5', false) p
CROSS JOIN LATERAL sluice_private.lock_shares('${queue}', p.granted, p.tenants, p.shares) l`

describe('with 10,000 tenants that have work', () => {
  test('a claim of ten reads of ten tenants, whatever the statistics say', async ({ database, queue }) => {
    await fill(database, queue)
    await setQueueColumns(database, queue, { tenant_concurrency: 2, tenant_rate: 100, concurrency: 50, rate: 1_000 })
    const prepared = await database.sql<{ tenants: string[]; shares: number[] }>(prepare(queue))
    expect(prepared[0]?.tenants).toHaveLength(10)
    expect(prepared[0]?.shares).toEqual(Array(10).fill(1))
    expect(await pagesOf(database, lock(queue))).toBeLessThan(MOST_PAGES)
    await database.sql('ANALYZE sluice.message')
    expect(await pagesOf(database, lock(queue))).toBeLessThan(MOST_PAGES)
  })

  test('a claim looks at 200 tenants at their limit at most, and the next one goes on there', async ({
    database,
    queue,
  }) => {
    await fill(database, queue)
    await setQueueColumns(database, queue, { tenant_rate: 1, tenant_rate_ms: 3_600_000, tenant_rate_burst: 1 })
    await database.sql(
      `INSERT INTO sluice.bucket (queue, tenant, tokens, at)
       SELECT DISTINCT m.queue, m.tenant, 0, now() FROM sluice.message m WHERE m.queue = $1 AND m.tenant < 'tenant 9'
       ON CONFLICT (queue, tenant) DO UPDATE SET tokens = 0, at = excluded.at`,
      [queue],
    )
    expect(await pagesOf(database, prepare(queue))).toBeLessThan(MOST_PAGES * 4)
    const [first] = await database.sql<{ granted: number; wait_ms: number; turn: string }>(prepare(queue))
    expect(first).toMatchObject({ granted: 0, round_from: 'tenant 5' })
    expect(first!.wait_ms).toBeGreaterThan(100)
    expect(first!.turn > 'tenant 5').toBe(true)
    const [behind] = await database.sql<{ granted: number }>(prepare(queue, 'tenant 9'))
    expect(behind).toMatchObject({ granted: 10 })
  })
})

/** So many messages of a queue in claims of others, with their permits, and some that are due. */
async function inFlight(database: TestDatabase, queue: string, leases: number, limit: number): Promise<void> {
  await setQueueColumns(database, queue, { concurrency: limit })
  await database.sql(
    `WITH leased AS (
       INSERT INTO sluice.message (queue, payload, due_at, lease)
       SELECT $1, '{}', now() + interval '1 hour', -1 - s FROM generate_series(1, $2::integer) AS s RETURNING id, lease
     )
     INSERT INTO sluice.permit (queue, tenant, n, message_id, lease)
     SELECT $1, '', row_number() OVER (), id, lease FROM leased`,
    [queue, leases],
  )
  await database.sql(`INSERT INTO sluice.message (queue, payload) SELECT $1, '{}' FROM generate_series(1, 100)`, [
    queue,
  ])
}

const claimOne = (queue: string) => `SELECT * FROM sluice.claim('${queue}', 1)`
const lockOne = (queue: string) =>
  `SELECT sluice_private.lock_permits('${queue}', '', 1) FROM sluice_private.prepare_claim('${queue}', 1, NULL, false)`

describe('a claim of one message, with a limit of 10,000 in flight', () => {
  for (const [what, text] of [
    ['of the function', claimOne],
    ['of a worker', lockOne],
  ] as const) {
    test(`${what} reads as much behind 9,000 leases as behind ten, whatever the statistics say`, async ({
      database,
      queue,
    }) => {
      await inFlight(database, `${queue}.ten`, 10, 10_000)
      await inFlight(database, queue, 9_000, 10_000)
      const least = await pagesOf(database, text(`${queue}.ten`))
      expect(await pagesOf(database, text(queue))).toBeLessThan(least + PAGES_OF_A_BLOCK)
      await database.sql('ANALYZE sluice.permit, sluice.message')
      expect(await pagesOf(database, text(queue))).toBeLessThan(least + PAGES_OF_A_BLOCK)
      // Permits that somebody has emptied come first.
      await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND lease < -8000', [queue])
      await database.sql(`SELECT sluice_private.prepare_claim($1, 10, NULL, false)`, [queue])
      expect(await pagesOf(database, text(queue))).toBeLessThan(least + PAGES_OF_A_BLOCK)
    })

    test(`${what} at the limit reads each lease once at most, until it has found one that has ended`, async ({
      database,
      queue,
    }) => {
      await inFlight(database, queue, 9_000, 9_000)
      const full = await pagesOf(database, text(queue))
      expect(full).toBeLessThan(9_000 * PAGES_OF_A_LEASE)
      await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND lease % 10 = 0', [queue])
      expect(await pagesOf(database, text(queue))).toBeLessThan(full / 10)
    })
  }
})

describe('with 60,000 messages behind a closed key, in a queue with limits for tenants', () => {
  test('each claim of a worker reads a bounded part of them, and then none', async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 5 })
    const { same } = await keysOf(database)
    const [closed, free] = same
    await database.sql(
      `INSERT INTO sluice.message (queue, ordering_key, payload, due_at, attempt, lease)
       VALUES ($1, $2, '{}', now() + interval '1 hour', 1, 0)`,
      [queue, closed],
    )
    await database.sql(
      `INSERT INTO sluice.message (queue, ordering_key, payload) SELECT $1, $2, '{}' FROM generate_series(1, 60000)`,
      [queue, closed],
    )
    const sent = recordStatements()
    let handled = 0
    const enqueue = () => put(sluice, queue, [1], { orderingKey: free })
    await enqueue()
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(() => {
        handled += 1
      })
      .start()
    await waitFor(() => handled === 1, { what: 'the message behind the backlog', timeoutMs: 60_000 })
    for (const n of [2, 3, 4]) {
      await enqueue()
      await waitFor(() => handled === n, { what: 'the next message behind it' })
    }
    // Whoever finds the row of a slot locked reads nothing of it.
    await pipeline.stop()
    expect(await pagesOf(database, `SELECT sluice_private.lock_keyed('${queue}', 1)`), 'a walk').toBeGreaterThan(WALK)
    const client = await database.pool.connect()
    try {
      const pages: number[] = []
      for (const { text, values } of sent.filter((one) => isOfClaim(one, queue))) {
        const statement = { name: 'explained', text }
        pages.push((await explain(client, { statement, params: values }, 'force_generic_plan')).buffers)
      }
      expect(Math.max(...pages)).toBeLessThan(WALK / 3)
      expect(Math.max(...pages.slice(-3))).toBeLessThan(PAGES_OF_A_KEYED_CLAIM)
    } finally {
      client.release()
    }
  })
})

/** What a worker sends for a claim in a queue with limits for tenants. */
function isOfClaim({ text, values }: SentStatement, queue: string): boolean {
  return values[0] === queue && /SKIP LOCKED|prepare_claim|lock_shares/.test(text)
}

/** Twice over the backlog. */
const WALK = 1_500
const PAGES_OF_A_KEYED_CLAIM = 150
/** Where permits can be made, a claim looks whether one of a hundred leases has ended. */
const PAGES_OF_A_BLOCK = 700
/** A look at a permit, and a descent to its message. */
const PAGES_OF_A_LEASE = 5
/** A descent takes three or four. */
const MOST_PAGES = 1_000
