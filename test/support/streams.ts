import type { TestDatabase } from './servers/database.ts'
import { test as base } from './sluice.ts'

let streams = 0

/** `test` with a stream of the test's own, of four partitions, with a group "all" that begins at its start. */
export const test = base.extend('stream', async ({ database }) => {
  const stream = `s.${++streams}`
  await database.sql('SELECT sluice.create_stream($1, 4::smallint)', [stream])
  await database.sql("SELECT sluice.create_group($1, 'all', '{0}')", [stream])
  return stream
})

/** Appends events, each a payload and perhaps an ordering key, in one transaction. Returns their positions. */
export async function append(
  database: Pick<TestDatabase, 'sql'>,
  stream: string,
  events: readonly (readonly [payload: unknown, orderingKey?: string])[],
): Promise<readonly number[]> {
  const payloads = JSON.stringify(events.map(([payload]) => payload))
  const options = JSON.stringify(events.map(([, orderingKey]) => (orderingKey === undefined ? {} : { orderingKey })))
  const rows = await database.sql<{ position: string }>(
    'SELECT position::text FROM sluice.append_many($1, $2, $3) AS position',
    [stream, payloads, options],
  )
  return rows.map(({ position }) => Number(position))
}
