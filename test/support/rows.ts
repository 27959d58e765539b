import type { TestDatabase } from './database.ts'
import { waitFor } from './wait.ts'

/** The payloads of a queue's messages that nobody has locked, in the order of their ids. */
export async function unlockedPayloads(database: TestDatabase, queue: string): Promise<readonly unknown[]> {
  const rows = await database.sql<{ payload: unknown }>(
    'SELECT payload FROM sluice.message WHERE queue = $1 ORDER BY id FOR UPDATE SKIP LOCKED',
    [queue],
  )
  return rows.map(({ payload }) => payload)
}

/** The payloads of a queue's messages, in the order of their ids. */
export async function payloadsOf(database: TestDatabase, queue: string): Promise<readonly unknown[]> {
  const rows = await database.sql<{ payload: unknown }>(
    'SELECT payload FROM sluice.message WHERE queue = $1 ORDER BY id',
    [queue],
  )
  return rows.map(({ payload }) => payload)
}

/** Waits until a queue holds no message any more, dead letters apart. */
export async function untilEmpty(database: TestDatabase, queue: string, timeoutMs = 20_000): Promise<void> {
  await waitFor(async () => (await payloadsOf(database, queue)).length === 0, {
    what: `the queue ${queue} to be empty`,
    timeoutMs,
  })
}
