import type { TestDatabase } from '../servers/database.ts'

type Database = Pick<TestDatabase, 'sql'>

/** Makes a stream, by default with short segments. */
export async function makeStream(database: Database, stream: string): Promise<void> {
  await database.sql('SELECT sluice.create_stream($1)', [stream])
}

/** Appends the numbers 1 to n, in one transaction. */
export async function append(database: Database, stream: string, n: number): Promise<void> {
  await database.sql(
    `SELECT count(*) FROM sluice.append_many($1, (SELECT jsonb_agg(n) FROM generate_series(1, $2::integer) n), '[]')`,
    [stream, n],
  )
}

/** Makes maintenance believe that the open segment has lasted for long enough, and lets it open the next one. */
export async function jumpSegment(database: Database, stream: string): Promise<void> {
  await database.sql(
    `UPDATE sluice.segment g SET opened_at = opened_at - interval '10 years' FROM sluice.stream s
     WHERE s.stream = $1 AND g.stream_id = s.id AND g.closed_at IS NULL`,
    [stream],
  )
  await database.sql('SELECT sluice.keep_segments()')
}

/** The tables of a stream's segments that are attached to it. */
export async function segmentsOf(database: Database, stream: string): Promise<readonly string[]> {
  const rows = await database.sql<{ name: string }>(
    `SELECT i.inhrelid::regclass::text AS name FROM sluice.stream s
     JOIN pg_inherits i ON i.inhparent = format('sluice.event_%s', s.id)::regclass AND NOT i.inhdetachpending
     WHERE s.stream = $1 ORDER BY 1`,
    [stream],
  )
  return rows.map(({ name }) => name)
}

/** All of them, as Array.fromAsync has it. */
export async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}
