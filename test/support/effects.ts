import type { TestDatabase } from './servers/database.ts'

/** Makes the table in which worker processes leave the effects of messages. */
export async function createEffects(database: Pick<TestDatabase, 'sql'>): Promise<void> {
  await database.sql('CREATE TABLE IF NOT EXISTS effect (message_id bigint NOT NULL, worker text NOT NULL)')
}

/** Enqueues payloads, one message each, in one transaction, and returns the ids. */
export async function enqueue(
  database: Pick<TestDatabase, 'sql'>,
  queue: string,
  payloads: readonly unknown[],
): Promise<string[]> {
  const rows = await database.sql<{ id: string }>(
    `SELECT sluice.enqueue($1, p.payload) AS id FROM jsonb_array_elements($2::text::jsonb) WITH ORDINALITY AS p (payload, n) ORDER BY p.n`,
    [queue, JSON.stringify(payloads)],
  )
  return rows.map(({ id }) => id)
}

/** Which worker has left an effect of which of these messages, in the order of the ids. */
export async function effectsOf(
  database: Pick<TestDatabase, 'sql'>,
  ids: readonly string[],
): Promise<{ id: string; worker: string }[]> {
  return database.sql(
    'SELECT message_id AS id, worker FROM effect WHERE message_id = ANY ($1::bigint[]) ORDER BY 1, 2',
    [ids],
  )
}

/** Leaves an effect in the table of {@link createNumberedEffects}: the queue, and a number. */
export const INSERT_NUMBERED = 'INSERT INTO effect VALUES ($1, $2)'

/** Makes a table in which handlers leave numbers, and returns how to read those of a queue, in order. */
export async function createNumberedEffects(
  database: Pick<TestDatabase, 'sql'>,
): Promise<(queue: string) => Promise<number[]>> {
  await database.sql('CREATE TABLE effect (queue text, n integer)')
  return async (queue) => {
    const rows = await database.sql<{ n: number }>('SELECT n FROM effect WHERE queue = $1 ORDER BY n', [queue])
    return rows.map(({ n }) => n)
  }
}
