import type pg from 'pg'
import { type ConstructorOptions, PgBoss } from 'pg-boss'
import type { Contestant, FillSpec } from '../contestant.ts'

/** The tables of pg-boss, for both ways to settle its jobs. */
export const pgBossJobs: Pick<Contestant, 'install' | 'tables' | 'fill' | 'unsettled'> = {
  install: async (url) => {
    const boss = await startPgBoss(url)
    await boss.createQueue('bench', { notify: true })
    await boss.stop()
  },
  tables: ['pgboss.job'],
  fill,
  unsettled,
}

/** As it comes, without the clock for cron jobs, which no other contestant has. */
export async function startPgBoss(url: string, options: ConstructorOptions = {}): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString: url, schedule: false, ...options })
  boss.on('error', (error) => {
    throw error
  })
  return boss.start()
}

/** Names the columns that its own insert statement would not leave to their defaults. */
async function fill(client: pg.Client, { messages, scheduled = 0, bytes }: FillSpec): Promise<void> {
  await client.query(
    `INSERT INTO pgboss.job (name, policy, retry_delay, data, created_on, start_after)
     SELECT 'bench', 'standard', 0,
            jsonb_strip_nulls(jsonb_build_object('n', n, 'text', repeat('x', $3::integer))),
            clock_timestamp(),
            clock_timestamp() + CASE WHEN n > $1 THEN interval '1 day' ELSE interval '0' END
     FROM generate_series(1, $1::integer + $2::integer) AS n`,
    [messages, scheduled, bytes],
  )
}

async function unsettled(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    `SELECT count(*) FROM pgboss.job WHERE name = 'bench' AND state < 'completed'`,
  )
  return Number(rows[0]?.count)
}
