import pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { test } from '../../support/servers/undisturbed.ts'

interface Explained {
  readonly Plan: {
    readonly 'Actual Rows': number
    readonly 'Shared Hit Blocks': number
    readonly 'Shared Read Blocks': number
  }
}

test('the doctor reads no more of a queue with ten times as many messages', async ({ database }) => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  const buffers = async () => {
    const { rows } = await client.query<{ 'QUERY PLAN': [Explained] }>(
      'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM sluice.doctor()',
    )
    const { Plan } = rows[0]!['QUERY PLAN'][0]
    return Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks']
  }
  const grow = async (messages: number) => {
    await client.query(
      `INSERT INTO sluice.message (queue, payload, ordering_key, priority, attempt, last_error, failed_at, failures, due_at)
       SELECT 'q' || n % 4, '{}', CASE WHEN n % 3 = 0 THEN 'k' || n % 997 END, n % 10, n % 2,
              CASE n % 2 WHEN 1 THEN 'boom' END, now(), '[]', now() - interval '1 day' + n * interval '1 ms'
       FROM generate_series(1, $1::integer) n`,
      [messages],
    )
    await client.query('VACUUM ANALYZE sluice.message')
    // The first call of a session reads the catalogs.
    await buffers()
    return buffers()
  }
  const [few, many] = [await grow(20_000), await grow(180_000)]
  expect(many).toBeLessThan(few * 1.2)
  expect(many).toBeLessThan(15_000)
})
