import type { TestDatabase } from '../servers/database.ts'

/** Sets a queue to keep its history, and makes its partitions. */
export async function keepHistory(database: TestDatabase, queue: string, ms = 7 * 86_400_000): Promise<void> {
  await database.sql(
    `INSERT INTO sluice.queue (queue, history_ms) VALUES ($1, $2) ON CONFLICT (queue) DO UPDATE SET history_ms = EXCLUDED.history_ms`,
    [queue, ms],
  )
}
