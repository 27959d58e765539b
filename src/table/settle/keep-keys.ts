import { HUNDRED_YEARS_MS } from '../../basics/time/duration.ts'
import type { Execute } from '../statement.ts'
import { fencedInEveryVersion, own, sendFenced } from './fence.ts'
import type { SettleIn } from './settle.ts'

/** A message that has succeeded, and for how long its dedupe key stays taken; null: for as long as it asks for. */
export interface KeptKey {
  readonly id: string
  readonly forMs: number | null
}

/**
 * Keeps dedupe keys taken after their messages have succeeded. It goes before the statement that removes them, in the same
 * transaction, and only for messages that ask for it. It waits for no producer: the key of sluice.kept_key has the message's
 * id in it. Leased messages are locked by it, so that they are the same that are removed then: each is looked up by its
 * id, because a row that is moved while the lock is awaited is not found again by its ctid. The statement that removes them
 * tells which of them were settled.
 */
export async function keepKeys(
  execute: Execute,
  { queue, fence, serverVersion }: SettleIn,
  kept: readonly KeptKey[],
): Promise<void> {
  const ids = kept.map(({ id }) => id)
  await sendFenced(execute, KEEP, fence, serverVersion, [queue, ids, kept.map(({ forMs }) => forMs)])
}

const GIVEN_MS = own('$3::bigint[]')

// Where an owner has dropped the constraint, a time of more than a hundred years would fail the settlement of the whole batch.
// A trigger that swallows a row is noticed: without it the key would be free, and its work done twice. A worker may not read the
// table, so the rows are counted and not named.
const KEEP = fencedInEveryVersion(
  'keep_keys',
  (either) => `
WITH wanted AS MATERIALIZED (
  SELECT m.* FROM pg_catalog.unnest($2::bigint[]) AS given (id) CROSS JOIN LATERAL (
    SELECT m.queue, m.dedupe_key, coalesce(${GIVEN_MS}, m.dedupe_ms) AS for_ms, m.id FROM sluice.message m
    WHERE m.queue = $1::text AND m.id = given.id${either({ locked: '', leased: ` AND m.lease = ${own('$4::bigint[]')}` })}
      AND m.dedupe_key IS NOT NULL AND coalesce(${GIVEN_MS}, m.dedupe_ms) > 0
    LIMIT 1${either({ locked: '', leased: ' FOR UPDATE OF m' })}
  ) m
), kept AS (
  INSERT INTO sluice.kept_key (queue, key, message_id, until)
  SELECT k.queue, k.dedupe_key, k.id,
         c.now + least(k.for_ms, ${HUNDRED_YEARS_MS})::double precision * interval '1 millisecond'
  FROM (SELECT clock_timestamp() AS now OFFSET 0) c CROSS JOIN wanted k
  RETURNING 1 AS one
)
SELECT sluice_private.require_kept('kept_key', $1::text, w.n, k.n)
FROM (SELECT count(*) AS n FROM wanted) w CROSS JOIN (SELECT count(*) AS n FROM kept) k
WHERE k.n OPERATOR(pg_catalog.<) w.n`,
)
