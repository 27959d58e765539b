import { type Execute, numberOf, statement, textOf } from '../statement.ts'

/** Takes away holds of messages that are gone. Resolves with how many are left, because batches have their slots. */
export async function releaseHolds(execute: Execute, queue: string): Promise<number> {
  const [row] = await execute(RELEASE_HOLDS, [queue])
  return row === undefined ? 0 : numberOf(row, 'left_over')
}

/**
 * Those of the queues that have a hold of a message that is gone. It reads the rows of their slots, 257 each at the most, and
 * of each key that is held looks its messages up in the primary key, until one is gone.
 */
export async function readOrphanedHolds(execute: Execute, queues: readonly string[]): Promise<readonly string[]> {
  return (await execute(ORPHANED_HOLDS, [queues])).map((row) => textOf(row, 'queue'))
}

const RELEASE_HOLDS = statement('release_holds', 'SELECT sluice_private.release_holds($1::text) AS left_over')

// Sub-selects with LIMIT, because the planner would join all messages of the queues otherwise.
const ORPHANED_HOLDS = statement(
  'holds_orphaned',
  `
SELECT q.queue
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint AS now_us OFFSET 0) clock
CROSS JOIN pg_catalog.unnest($1::text[]) AS q (queue)
CROSS JOIN LATERAL (
  SELECT FROM sluice.slot s CROSS JOIN LATERAL jsonb_each(s.held) key
  WHERE s.queue = q.queue AND s.held <> '{}'::jsonb AND (key.value ->> 1)::bigint > clock.now_us
    AND EXISTS (
      SELECT FROM jsonb_array_elements_text(key.value - 1) AS e (id)
      WHERE (SELECT m.id FROM sluice.message m WHERE m.queue = q.queue AND m.id = e.id::bigint LIMIT 1) IS NULL
    )
  LIMIT 1
) orphaned`,
)
