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

type Relation = 'sluice.message' | 'sluice.dead_letter' | 'sluice.action' | 'sluice.event_1_0' | 'sluice.group_progress'

/** The statistics that a client has given each table last. To analyze a table of 300,000 rows takes half a second. */
const given = new WeakMap<pg.ClientBase, Map<Relation, Statistics>>()

/**
 * Gives a table the statistics that it would have after another history, without loading it anew: they are rows of two
 * catalogs, which a superuser may write. It does nothing if this client has given the table the same before: autovacuum must
 * be off.
 */
export async function setStatistics(
  client: pg.ClientBase,
  statistics: Statistics,
  relation: Relation = 'sluice.message',
): Promise<void> {
  const ofClient = given.get(client) ?? new Map<Relation, Statistics>()
  given.set(client, ofClient)
  if (ofClient.get(relation) === statistics) return
  await writeStatistics(client, statistics, relation)
  ofClient.set(relation, statistics)
}

async function writeStatistics(client: pg.ClientBase, statistics: Statistics, relation: Relation): Promise<void> {
  await client.query(`DELETE FROM pg_statistic WHERE starelid = '${relation}'::regclass`)
  switch (statistics) {
    case 'never analyzed':
      return setSize(client, relation, -1, 0)
    case 'analyzed when empty':
      return setSize(client, relation, 0, 0)
    case 'analyzed with 50 rows':
      await copyFromFewRows(client, relation, ['busy', 'mixed'])
      return setSize(client, relation, 50, 1)
    case 'analyzed with 50 rows of another queue':
      await copyFromFewRows(client, relation, ['first'])
      return setSize(client, relation, 50, 1)
    case 'analyzed':
      await client.query(`ANALYZE ${relation}`)
  }
}

async function setSize(client: pg.ClientBase, relation: Relation, rows: number, pages: number): Promise<void> {
  await client.query(`UPDATE pg_class SET reltuples = $1, relpages = $2 WHERE oid = '${relation}'::regclass`, [
    rows,
    pages,
  ])
}

/** Of 50 rows: messages with one priority, all due, and none with a key; events and progress of the partition that a queue stands for. */
const FEW: Readonly<Record<Relation, { readonly columns: string; readonly values: (queue: string) => string }>> = {
  'sluice.message': {
    columns: 'queue, id, due_at, payload',
    values: (queue) => `${queue}, n, clock_timestamp() - n * interval '1 second', '{}'`,
  },
  'sluice.dead_letter': {
    columns: 'queue, id, died_at, priority, schema_version, payload, headers, attempt, reason, enqueued_at',
    values: (queue) =>
      `${queue}, n, clock_timestamp() - n * interval '1 second', 5, 1, '{}', '{}', 20, 'Too many attempts', clock_timestamp()`,
  },
  'sluice.action': {
    columns: 'queue, id, at, actor, login, action, count',
    values: (queue) => `${queue}, n, clock_timestamp() - n * interval '1 second', 'ada', 'app', 'queue.pause', 1`,
  },
  'sluice.event_1_0': {
    columns: 'stream_id, partition, position, payload',
    values: (queue) => `1, length(${queue}), n, '{}'`,
  },
  'sluice.group_progress': { columns: 'group_id, partition, position', values: (queue) => `1, length(${queue}), n` },
}

async function copyFromFewRows(client: pg.ClientBase, relation: Relation, queues: readonly string[]): Promise<void> {
  const { columns, values } = FEW[relation]
  const queue = `('{${queues.join()}}'::text[])[1 + n % ${queues.length}]`
  await client.query(`
    CREATE TABLE few (LIKE ${relation} INCLUDING DEFAULTS INCLUDING GENERATED);
    INSERT INTO few (${columns}) SELECT ${values(queue)} FROM generate_series(1, 50) n;
    ANALYZE few;
    UPDATE pg_statistic s SET starelid = '${relation}'::regclass
      FROM pg_attribute a
      WHERE s.starelid = 'few'::regclass AND a.attrelid = '${relation}'::regclass AND a.attnum = s.staattnum
        AND a.attstattarget IS DISTINCT FROM 0;
    DROP TABLE few`)
}
