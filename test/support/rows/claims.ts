import type { TestDatabase } from '../servers/database.ts'

/** The claim's time is up, as if it had passed. */
export async function runOut(database: Pick<TestDatabase, 'sql'>, queue: string, claimId: string): Promise<void> {
  await database.sql(
    `WITH over AS (
       UPDATE sluice.claim c SET expires_at = clock_timestamp() WHERE c.queue = $1 AND c.id = $2 RETURNING c.expires_at
     )
     UPDATE sluice.message m SET due_at = over.expires_at FROM over WHERE m.queue = $1 AND m.lease = -($2::bigint)`,
    [queue, claimId],
  )
}

/** The rows of claims, those that are over as well. */
export async function claimRows(database: Pick<TestDatabase, 'sql'>, queue: string): Promise<readonly string[]> {
  const rows = await database.sql<{ id: string }>(
    'SELECT c.id::text AS id FROM sluice.claim c WHERE c.queue = $1 ORDER BY c.id',
    [queue],
  )
  return rows.map(({ id }) => id)
}
