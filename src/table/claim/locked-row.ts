import { CLAIMED_COLUMNS } from './claim.ts'
import { isDue } from './is-due.ts'

/**
 * Locks the row `next`, as the scan has found it; there is no `m` where that fails. By its ctid, which is a buffer for each
 * row: if the scan itself locked the rows and skipped some, nobody would know which, and the next one of the key would be taken.
 */
export const LOCKED_ROW = `LEFT JOIN LATERAL (
    SELECT ${CLAIMED_COLUMNS}
    FROM sluice.message m
    WHERE m.queue = $1::text AND m.ctid = next.ctid AND ${isDue('m')}
    FOR UPDATE OF m SKIP LOCKED
  ) m ON true`

/** A row that the claim could not lock, see {@link MissedMessage}. */
export const MISSED = `CASE WHEN m.id IS NULL AND next.id IS NOT NULL THEN pg_catalog.jsonb_build_object(
           'slot', candidate.slot, 'id', next.id::text, 'key', next.ordering_key, 'locked', NOT sluice_private.lock_missed($1::text, next.id))::text
         END AS missed`
