import pg from 'pg'
import { describe, expect } from 'vitest'
import { STATISTICS, setStatistics } from '../../support/plans/statistics.ts'
import { test as base } from '../../support/test.ts'

const READY = 100_000
const LEASED = 10_000

/** Queues of equal kinds: few messages, many, and many beside live claims of 10,000. */
const test = base.extend('client', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const client = new pg.Client({ connectionString: database.url })
  onCleanup(() => client.end())
  await client.connect()
  await client.query('ALTER TABLE sluice.message SET (autovacuum_enabled = off)')
  for (const [queue, count] of [
    ['few', 100],
    ['many', READY],
    ['leased', READY],
  ] as const) {
    await client.query(
      `INSERT INTO sluice.message (queue, payload) SELECT $1, to_jsonb(n) FROM generate_series(1, $2::integer) n`,
      [queue, count],
    )
    await client.query(
      `INSERT INTO sluice.message (queue, ordering_key, payload)
       SELECT $1 || '.keyed', 'key ' || n % 5000, to_jsonb(n) FROM generate_series(1, $2::integer) n`,
      [queue, count],
    )
    await client.query(`SELECT sluice.claim($1 || '.keyed', 1)`, [queue])
  }
  for (let leased = 0; leased < LEASED; leased += 1_000) await client.query(`SELECT sluice.claim('leased', 1000)`)
  for (let leased = 0; leased < 2_000; leased += 200) await client.query(`SELECT sluice.claim('leased.keyed', 200)`)
  // The rows that the claims have moved are dead now; without this every page would be looked at for that.
  await client.query('VACUUM sluice.message')
  return client
})

/** Buffers, as measured on PostgreSQL 18 with a little to spare. A scan of a queue of 100,000 is 1,200 and more. */
const BOUNDS = [
  { what: 'a claim of ten', text: `SELECT * FROM sluice.claim($1, 10)`, most: 600, keyed: 1_000 },
  { what: 'a pop of ten', text: `SELECT * FROM sluice.pop($1, 10)`, most: 450, keyed: 800 },
] as const

describe.for(STATISTICS)('with statistics: %s', (statistics) => {
  for (const { what, text, most, keyed } of BOUNDS) {
    for (const kind of ['', '.keyed'] as const) {
      test(`${what}${kind === '' ? '' : ' with keys'} costs as much with ${READY} messages, and beside live claims`, async ({
        client,
      }) => {
        await setStatistics(client, statistics)
        for (const queue of ['few', 'many', 'leased']) {
          const bound = kind === '' ? most : keyed
          expect(await buffersOf(client, text, `${queue}${kind}`), queue).toBeLessThanOrEqual(bound)
        }
      })
    }
  }
})

test('a settlement of one message of a claim of a thousand does not look at the others', async ({ client }) => {
  const { rows } = await client.query(`SELECT claim_id, id FROM sluice.claim('many', 1000)`)
  const { claim_id: claimId, id } = rows[0]
  const text = `SELECT * FROM sluice.claim_settle('many', $1::bigint, ARRAY[${id}])`
  expect(await buffersOf(client, text, claimId)).toBeLessThanOrEqual(150)
})

test('a claim costs as much in a session whose planner may use next to nothing', async ({ client }) => {
  const off = ['nestloop', 'indexscan', 'indexonlyscan', 'bitmapscan', 'tidscan', 'hashjoin', 'material', 'memoize']
  const settings = [...off.map((name) => `enable_${name} = off`), 'jit = on', 'jit_above_cost = 0']
  for (const setting of settings) await client.query(`SET ${setting}`)
  for (const queue of ['many', 'leased', 'many.keyed', 'leased.keyed']) {
    expect(await buffersOf(client, 'SELECT * FROM sluice.claim($1, 10)', queue), queue).toBeLessThanOrEqual(1_000)
  }
  await client.query('RESET ALL')
})

test('a claim that is planned without its own settings reads more, so this gate can fail', async ({ client }) => {
  await setStatistics(client, 'analyzed when empty')
  const text = `SELECT m.id FROM sluice.message m WHERE m.queue = $1 AND m.due_at <= clock_timestamp() ORDER BY m.due_at LIMIT 10`
  expect(await buffersOf(client, text, 'many')).toBeGreaterThan(1_000)
})

/** Of a run that is rolled back; the second one, because the first one plans. */
async function buffersOf(client: pg.Client, text: string, queue: string): Promise<number> {
  let buffers = Number.POSITIVE_INFINITY
  for (const _ of [1, 2, 3]) {
    await client.query('BEGIN')
    const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, [queue])
    await client.query('ROLLBACK')
    const plan = rows[0]['QUERY PLAN'][0].Plan
    buffers = Math.min(buffers, plan['Shared Hit Blocks'] + plan['Shared Read Blocks'])
  }
  return buffers
}
