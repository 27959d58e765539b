import { waitFor } from '../wait.ts'
import type { TestDatabase } from './database.ts'

/** How many sessions with this application name the database has. */
export async function countSessions(database: TestDatabase, application: string): Promise<number> {
  const rows = await database.sql(
    'SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1',
    [application],
  )
  return rows.length
}

/** Resolves when there are so many; the server notices a little later than the client that one has ended. */
export async function untilSessions(database: TestDatabase, application: string, count: number): Promise<void> {
  const areThere = async () => (await countSessions(database, application)) === count
  await waitFor(areThere, { what: `${count} sessions of ${application}` })
}

/** Ends the sessions with this application name from the server's side. */
export async function endSessions(database: TestDatabase, application: string): Promise<void> {
  await database.sql(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`,
    [application],
  )
}
