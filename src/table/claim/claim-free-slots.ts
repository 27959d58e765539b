import { orderedClaim } from './candidate-slots.ts'
import { leasingClaim, lockingClaim } from './claim.ts'
import { isDue } from './is-due.ts'
import { LOCKED_ROW, MISSED } from './locked-row.ts'
import { anyHeld, CANDIDATE_SLOTS, inSlot, LEASED_KEYS, LOCKED_SLOT } from './locked-slot.ts'
import { slotContext } from './slot-context.ts'

/** A leased claim takes one message of a key: more would wait for one another in hand, where they take the place of others. */
const ONE = '1'

/**
 * What nearly all claims need. Of a slot in which a key is held it only reports that. A claim of ten by
 * {@link CLAIM_SLOTS} takes a quarter longer, because it starts a plan that is three times as large. Its last parameter is the most
 * rows of a slot, and so is that of {@link CLAIM_SLOTS}; a claim that leases has its lease instead.
 */
const freeSlots = (perSlot: string) =>
  orderedClaim(
    'claim_free_slots',
    '',
    ', c.missed',
    `
  SELECT start.of_slot, m.*, ${MISSED}
  FROM ${CANDIDATE_SLOTS}
  CROSS JOIN LATERAL (
    SELECT now.any_held, ${slotContext('now.any_held')} AS of_slot
    FROM (SELECT ${anyHeld(LEASED_KEYS)} FROM (${LOCKED_SLOT}) locked OFFSET 0) now
    OFFSET 0
  ) start
  LEFT JOIN LATERAL (
    SELECT m.id, m.ctid, m.ordering_key
    FROM sluice.message m
    WHERE NOT start.any_held AND ${inSlot('candidate.slot', 'candidate.first_live', 'm.slot <= candidate.slot')} AND ${isDue('m')}
    ORDER BY m.slot, m.id
    LIMIT (SELECT ${perSlot})
  ) next ON true
  ${LOCKED_ROW}
  WHERE next.id IS NOT NULL OR start.any_held`,
  )
export const CLAIM_FREE_SLOTS = lockingClaim(freeSlots('$5::integer'))
export const LEASE_FREE_SLOTS = leasingClaim(freeSlots(ONE), 5)
