import type { TestDatabase } from '../servers/database.ts'
import { waitFor } from '../wait.ts'

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
export async function untilEmpty(database: TestDatabase, queue: string, timeoutMs = 30_000): Promise<void> {
  await waitFor(async () => (await payloadsOf(database, queue)).length === 0, {
    what: `the queue ${queue} to be empty`,
    timeoutMs,
  })
}

/** Waits until so many messages of a queue are on record as being in hand: a handler does not wait for its batch's. */
export async function untilRecorded(database: Pick<TestDatabase, 'sql'>, queue: string, count: number): Promise<void> {
  const recorded = () => database.sql('SELECT FROM sluice.in_flight WHERE queue = $1', [queue])
  await waitFor(async () => (await recorded()).length === count, { what: `${count} messages of ${queue} on record` })
}
