import type { TestDatabase } from '../servers/database.ts'

/** Sets a queue, by the columns of its row. */
export async function setQueueColumns(
  database: Pick<TestDatabase, 'sql'>,
  queue: string,
  settings: Readonly<Record<string, unknown>>,
): Promise<void> {
  const names = Object.keys(settings)
  const places = names.map((_, at) => `$${at + 2}`).join(', ')
  const sets = names.map((name) => `${name} = excluded.${name}`).join(', ')
  await database.sql(
    `INSERT INTO sluice.queue (queue, ${names.join(', ')}) VALUES ($1, ${places}) ON CONFLICT (queue) DO UPDATE SET ${sets}`,
    [queue, ...Object.values(settings)],
  )
}
