import type pg from 'pg'

/** What the planner may know of sluice.message. */
export type Statistics = (typeof STATISTICS)[number]

export const STATISTICS = [
  'never analyzed',
  'analyzed when empty',
  'analyzed with 50 rows',
  'analyzed with 50 rows of another queue',
  'analyzed',
] as const

/**
 * Gives sluice.message the statistics that it would have after another history, without loading it anew: they are
 * rows of two catalogs, which a superuser may write.
 */
export async function setStatistics(client: pg.ClientBase, statistics: Statistics): Promise<void> {
  await client.query(`DELETE FROM pg_statistic WHERE starelid = 'sluice.message'::regclass`)
  switch (statistics) {
    case 'never analyzed':
      return setSize(client, -1, 0)
    case 'analyzed when empty':
      return setSize(client, 0, 0)
    case 'analyzed with 50 rows':
      await copyFromFewRows(client, ['busy', 'mixed'])
      return setSize(client, 50, 1)
    case 'analyzed with 50 rows of another queue':
      await copyFromFewRows(client, ['first'])
      return setSize(client, 50, 1)
    case 'analyzed':
      await client.query('ANALYZE sluice.message')
  }
}

async function setSize(client: pg.ClientBase, rows: number, pages: number): Promise<void> {
  await client.query(`UPDATE pg_class SET reltuples = $1, relpages = $2 WHERE oid = 'sluice.message'::regclass`, [
    rows,
    pages,
  ])
}

/** As of 50 messages of one priority, all due and none with a key. */
async function copyFromFewRows(client: pg.ClientBase, queues: readonly string[]): Promise<void> {
  await client.query(`
    CREATE TABLE few (LIKE sluice.message INCLUDING DEFAULTS INCLUDING GENERATED);
    INSERT INTO few (queue, id, due_at, payload)
      SELECT ('{${queues.join()}}'::text[])[1 + n % ${queues.length}], n, clock_timestamp() - n * interval '1 second', '{}'
      FROM generate_series(1, 50) n;
    ANALYZE few;
    UPDATE pg_statistic s SET starelid = 'sluice.message'::regclass
      FROM pg_attribute a
      WHERE s.starelid = 'few'::regclass AND a.attrelid = 'sluice.message'::regclass AND a.attnum = s.staattnum
        AND a.attstattarget IS DISTINCT FROM 0;
    DROP TABLE few`)
}
