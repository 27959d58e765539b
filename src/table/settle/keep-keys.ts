import { byVersion, ofVersion } from '../rows-by-id.ts'
import { requiringRows } from '../rows-missing.ts'
import type { Execute } from '../statement.ts'
import { type LeasedId, ours } from './settle-leased.ts'

/**
 * Keeps the dedupe keys of messages that have succeeded taken for as long as they ask for. It goes before the statement that
 * removes them, in the same transaction, and only for messages that ask for it. The batch has their rows locked. It waits for
 * no producer: the key of sluice.settled has the message's id in it.
 */
export async function keepKeys(
  execute: Execute,
  queue: string,
  ids: readonly string[],
  serverVersion: number,
): Promise<void> {
  await requiringRows(execute(ofVersion(KEEP, serverVersion), [queue, ids]))
}

/** The same for messages that still have their leases. It locks them, so that they are the same that are removed then. */
export async function keepKeysLeased(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  serverVersion: number,
): Promise<readonly string[]> {
  const leases = messages.map(({ lease }) => lease)
  const params = [queue, messages.map(({ id }) => id), leases]
  await requiringRows(execute(ofVersion(KEEP_LEASED, serverVersion), params))
  // Which of them have been settled, the next statement says.
  return []
}

// A trigger that swallows a row is noticed: without it the key would be free, and its work done twice. A worker may not read the
// table, so the rows are counted and not named.
const keeping = (rows: string) => `
WITH wanted AS MATERIALIZED (
  SELECT m.queue, m.dedupe_key, m.dedupe_ms, m.id FROM sluice.message m WHERE ${rows}
), kept AS (
  INSERT INTO sluice.settled (queue, key, message_id, until)
  SELECT k.queue, k.dedupe_key, k.id, c.now + k.dedupe_ms::double precision * interval '1 millisecond'
  FROM (SELECT clock_timestamp() AS now OFFSET 0) c CROSS JOIN wanted k
  RETURNING 1 AS one
)
SELECT sluice.require_kept('settled', $1::text, w.n, k.n)
FROM (SELECT count(*) AS n FROM wanted) w CROSS JOIN (SELECT count(*) AS n FROM kept) k
WHERE k.n OPERATOR(pg_catalog.<) w.n`

const KEEP = byVersion('keep_keys', (found) => keeping(`${found('$2::bigint[]')} AND m.dedupe_ms IS NOT NULL`))

const KEEP_LEASED = byVersion('keep_keys_leased', (found) =>
  keeping(`${ours(found)} AND m.dedupe_ms IS NOT NULL\n  FOR UPDATE`),
)
