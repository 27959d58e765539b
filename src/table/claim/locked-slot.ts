import { candidateSlots } from './candidate-slots.ts'

/** The slots of ordering keys to claim from. */
export const CANDIDATE_SLOTS = candidateSlots(
  `
      SELECT m.id FROM sluice.message m
      WHERE ${inSlot('floor.slot', 'floor.id', 'm.slot <= floor.slot')}
      ORDER BY m.slot, m.id LIMIT 1
    `,
  'r.slot IS NOT NULL',
  'r.slot >= floor.slot AND r.slot <= floor.slot',
)

/**
 * Leaves a slot alone whose row is newer than the claim's snapshot. The claim would read the holds in the newest
 * version of the row, and the messages by its snapshot: it would pass a message that has failed since then and is due again, as
 * not due yet and not held, and take later ones of its key. Whatever postpones a message without a lease, or ends its hold,
 * writes the row. The server looks once more at a row that it has locked in a newer version, whose xmin the snapshot does not have.
 * A row that is older than all running transactions needs no look.
 */
const SEEN = `CASE WHEN pg_catalog.age(s.xmin) > pg_catalog.age(candidate.oldest::xid8::xid) THEN true
        ELSE s.xmin = (SELECT seen.xmin FROM sluice.slot seen WHERE seen.queue = s.queue AND seen.slot = s.slot) END`

export const LOCKED_SLOT = `
      SELECT s.slot, s.held FROM sluice.slot s
      WHERE s.queue = $1::text AND s.slot = candidate.slot AND candidate.first_live IS NOT NULL AND ${SEEN}
      FOR NO KEY UPDATE OF s SKIP LOCKED
    `

/** Which keys of a locked slot are closed by leases, each with its message: read once the slot's row is locked, in the newest version. */
export const LEASED_KEYS = 'sluice_private.leased_keys($1::text, locked.slot, candidate.floor_id)'

/** Whether any key of a locked slot is held at this moment. */
export function anyHeld(leased: string): string {
  return `(locked.held <> '{}'::jsonb AND EXISTS (
        SELECT FROM jsonb_each(locked.held) key WHERE (key.value ->> 1)::bigint > clock.now_us
      ) OR ${leased} <> '{}'::jsonb) AS any_held`
}

// Not slot = …, because then the order would be by id alone. The primary key has that order too, and with stale
// statistics the planner would read the queue from its beginning.
export function inSlot(slot: string, first: string, beyond: string): string {
  return `m.queue = $1::text AND m.slot IS NOT NULL AND (m.slot, m.id) >= (${slot}, ${first}) AND ${beyond}`
}
