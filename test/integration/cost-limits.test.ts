import { describe, expect } from 'vitest'
import { tell } from '../support/rows/queue-settings.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test } from '../support/sluice.ts'

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

/** How many pages a statement touches, its functions included, when it runs for the third time in a session. */
async function pagesOf(database: TestDatabase, text: string): Promise<number> {
  const client = await database.pool.connect()
  try {
    let pages = 0
    for (let run = 0; run < 3; run += 1) {
      await client.query('BEGIN')
      const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`)
      await client.query('ROLLBACK')
      const plan = rows[0]['QUERY PLAN'][0].Plan
      pages = plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
    }
    return pages
  } finally {
    client.release()
  }
}

const prepare = (queue: string, turn = 'tenant 5') =>
  `SELECT * FROM sluice.prepare_claim('${queue}', 10, '${turn}', false)`
const lock = (queue: string) => `
SELECT l.* FROM sluice.prepare_claim('${queue}', 10, 'tenant 5', false) p
CROSS JOIN LATERAL sluice.lock_shares('${queue}', p.granted, p.tenants, p.shares) l`

describe('with 10,000 tenants that have work', () => {
  test('a claim of ten reads of ten tenants, whatever the statistics say', async ({ database, queue }) => {
    await fill(database, queue)
    await tell(database, queue, { tenant_concurrency: 2, tenant_rate: 100, concurrency: 50, rate: 1_000 })
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
    await tell(database, queue, { tenant_rate: 1, tenant_rate_ms: 3_600_000, tenant_rate_burst: 1 })
    await database.sql(
      `INSERT INTO sluice.bucket (queue, tenant, tokens, at)
       SELECT DISTINCT m.queue, m.tenant, 0, now() FROM sluice.message m WHERE m.queue = $1 AND m.tenant < 'tenant 9'
       ON CONFLICT (queue, tenant) DO UPDATE SET tokens = 0, at = excluded.at`,
      [queue],
    )
    expect(await pagesOf(database, prepare(queue))).toBeLessThan(MOST_PAGES * 4)
    const [first] = await database.sql<{ granted: number; wait_ms: number; turn: string }>(prepare(queue))
    expect(first).toMatchObject({ granted: 0, wait_ms: 100 })
    expect(first!.turn > 'tenant 5').toBe(true)
    const [behind] = await database.sql<{ granted: number }>(prepare(queue, 'tenant 9'))
    expect(behind).toMatchObject({ granted: 10 })
  })
})

/** A descent takes three or four. */
const MOST_PAGES = 1_000
