import { byVersion, ofVersion } from '../rows-by-id.ts'
import { requiringRows } from '../rows-missing.ts'
import type { Execute } from '../statement.ts'
import { type LeasedId, ours, own } from './settle-leased.ts'

/** A message that has succeeded, and for how long its dedupe key stays taken; null: for as long as it asks for. */
export interface KeptKey {
  readonly id: string
  readonly forMs: number | null
}

/**
 * Keeps the dedupe keys of messages that have succeeded taken. It goes before the statement that
 * removes them, in the same transaction, and only for messages that ask for it. The batch has their rows locked. It waits for
 * no producer: the key of sluice.settled has the message's id in it.
 */
export async function keepKeys(
  execute: Execute,
  queue: string,
  kept: readonly KeptKey[],
  serverVersion: number,
): Promise<void> {
  const params = [queue, kept.map(({ id }) => id), kept.map(({ forMs }) => forMs)]
  await requiringRows(execute(ofVersion(KEEP, serverVersion), params))
}

/** The same for messages that still have their leases. It locks them, so that they are the same that are removed then. */
export async function keepKeysLeased(
  execute: Execute,
  queue: string,
  kept: readonly (LeasedId & KeptKey)[],
  serverVersion: number,
): Promise<readonly string[]> {
  const params = [queue, kept.map(({ id }) => id), kept.map(({ lease }) => lease), kept.map(({ forMs }) => forMs)]
  await requiringRows(execute(ofVersion(KEEP_LEASED, serverVersion), params))
  // Which of them have been settled, the next statement says.
  return []
}

// A hundred years, as the constraint says: a longer time would fail the settlement of the whole batch.
const LONGEST_MS = '3155760000000'

// A trigger that swallows a row is noticed: without it the key would be free, and its work done twice. A worker may not read the
// table, so the rows are counted and not named.
const keeping = (rows: string, forMs: string, locks = '') => `
WITH wanted AS MATERIALIZED (
  SELECT m.queue, m.dedupe_key, coalesce(${forMs}, m.dedupe_ms) AS for_ms, m.id FROM sluice.message m
  WHERE ${rows} AND m.dedupe_key IS NOT NULL AND coalesce(${forMs}, m.dedupe_ms) > 0${locks}
), kept AS (
  INSERT INTO sluice.settled (queue, key, message_id, until)
  SELECT k.queue, k.dedupe_key, k.id, c.now + least(k.for_ms, ${LONGEST_MS})::double precision * interval '1 millisecond'
  FROM (SELECT clock_timestamp() AS now OFFSET 0) c CROSS JOIN wanted k
  RETURNING 1 AS one
)
SELECT sluice_private.require_kept('settled', $1::text, w.n, k.n)
FROM (SELECT count(*) AS n FROM wanted) w CROSS JOIN (SELECT count(*) AS n FROM kept) k
WHERE k.n OPERATOR(pg_catalog.<) w.n`

const KEEP = byVersion('keep_keys', (found) => keeping(found('$2::bigint[]'), own('$3::bigint[]')))

const KEEP_LEASED = byVersion('keep_keys_leased', (found) =>
  keeping(ours(found), own('$4::bigint[]'), '\n  FOR UPDATE OF m'),
)
