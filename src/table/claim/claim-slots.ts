import { orderedClaim } from './candidate-slots.ts'
import { leasingClaim, lockingClaim } from './claim.ts'
import { isDue } from './is-due.ts'
import { LOCKED_ROW, MISSED } from './locked-row.ts'
import { anyHeld, CANDIDATE_SLOTS, inSlot, LEASED_KEYS, LOCKED_SLOT } from './locked-slot.ts'
import { slotContext } from './slot-context.ts'

/** The most rows of a slot with held keys that one claim reads. */
export const MOST_WALKED = 5_000

/** A walk over fewer rows is not remembered: each claim makes it again. */
const LEAST_WALKED = 100

/**
 * A delay that ends later counts as if it ended then: microseconds up to here are below 2^53.
 */
const FAR = `timestamptz '2255-01-01 00:00:00+00'`

/**
 * A claim that leases takes as many keys of a slot whose row it has locked, each with its first message that may be handed out. What it costs
 * to find a slot's keys closed is ten times what it costs to take one more.
 */
export const KEYS_PER_SLOT = 8

const HIGHEST_ID = '9223372036854775807'

/** The messages of a slot that have closed their keys and are due again, by message_lease_idx. */
const DUE_AGAIN = `SELECT m.id FROM sluice.message m
           WHERE ${inSlot('candidate.slot', 'candidate.first_live', 'm.slot <= candidate.slot')} AND m.lease IS NOT NULL AND ${isDue('m')}
           ORDER BY m.slot, m.id, m.lease`

/**
 * The first message of a slot that was put back or made due sooner, and can be taken: it may be among rows that are passed
 * over. Read by message_redriven_idx, nearly always empty: those that are not due yet, which are so within two minutes, and of
 * those that wait for their keys no more than a claim may read each time.
 */
const COME_BACK = `SELECT min(w.id) FROM (
            SELECT m.id, m.ordering_key FROM sluice.message m
            WHERE ${inSlot('candidate.slot', 'candidate.first_live', 'm.slot <= candidate.slot')} AND m.redriven IS NOT NULL AND ${isDue('m')}
            ORDER BY m.slot, m.id, m.redriven LIMIT (SELECT ${LEAST_WALKED})
          ) w
          WHERE ${heldUntil('w', 'now')} <= clock.now_us`

/**
 * When the hold of the message's key ends; zero if the key is not held. A message whose key is closed by the lease of
 * another waits until that one is settled, which no clock tells: the highest number that JSON keeps. Also one with a
 * lower id, which may have come since: its transaction committed later, its delay ended, or it was redriven.
 */
function heldUntil(message: string, slot = 'start'): string {
  const key = `coalesce(${message}.ordering_key, '')`
  return `greatest(coalesce((${slot}.held -> ${key} ->> 1)::bigint, 0),
        CASE WHEN ${message}.id::text <> ${slot}.leased ->> ${key} THEN ${Number.MAX_SAFE_INTEGER} ELSE 0 END)`
}

/** A message that has closed its key is locked here, or passed over. The others are locked by {@link LOCKED_ROW}. */
function isFree(message: string): string {
  return `(start.leased -> coalesce(${message}.ordering_key, '') IS NULL OR sluice_private.lock_due_again($1::text, ${message}.id))`
}

/** The end of a range of rows in a slot. */
const upTo = (slot: string, id: string) => `(m.slot, m.id) <= (${slot}, ${id})`
const before = (slot: string, id: string) => `(m.slot, m.id) < (${slot}, ${id})`

/** In what the claims of the two modes differ. */
interface SlotsText {
  /** The most rows of a slot. */
  readonly perSlot: string
  /** The first and the last row to take, if a key of the slot is held. */
  readonly pick: string
  /** Of the rows between them, which. */
  readonly isPicked: string
}

/**
 * The first rows that are due and not held: of the next 5,000 if a key of the slot is held. Else nothing remembers how far a
 * claim has come, and as many delayed messages would hide those behind them. A message that has closed its key and is
 * due, but that somebody has locked, is passed over: so there are as many more as there are such messages.
 */
function freeRows(most: string, where: string): string {
  return `
      SELECT w.id, w.ordering_key FROM (
        SELECT m.id, m.ordering_key, m.due_at, m.enqueued_at, m.lease FROM sluice.message m
        WHERE ${where} AND ${inSlot('candidate.slot', 'start.id', 'm.slot <= candidate.slot')}
        ORDER BY m.slot, m.id LIMIT (SELECT CASE WHEN start.any_held THEN ${MOST_WALKED} END)
      ) w
      WHERE ${isDue('w')} AND ${heldUntil('w')} <= clock.now_us
      LIMIT (SELECT ${most} + CASE WHEN start.any_held THEN (SELECT count(*) FROM (${DUE_AGAIN}) again) ELSE 0 END)`
}

/**
 * `passed`: stretches of rows that a claim of this process has found to be all held, or not due yet, and that still
 * are. A claim begins behind the last stretch that follows the others without a gap. A key that was closed by a lease must
 * be so still, and one that was held must be held as long: else the first of its rows would be passed, and later ones
 * taken. And a message that has closed its key and is due, because its lease has ended or was given up, must not be passed
 * (message_lease_idx leads to it), nor one that was put back or made due sooner (message_redriven_idx does).
 *
 * `start` is the locked slot row with that place. Only if a key of the slot is held at this moment, `pick` finds which
 * of the next 5,000 rows to take, and `run` describes the rows before them: how far they reach, which keys they have,
 * and when the first of their delays ends. Otherwise both are skipped (a one-time filter), and `next` begins at the first
 * live row.
 *
 * $12 has the keys that the process leaves out for a moment, see {@link LeftOut}: they count as closed by a message that is not there.
 */
const slotsClaim = ({ perSlot, pick, isPicked }: SlotsText) =>
  orderedClaim(
    'claim_slots',
    `, passed AS MATERIALIZED (
  SELECT p.slot, p.first_id, p.last_id, p.until_us > clock.now_us AND NOT EXISTS (
      SELECT FROM pg_catalog.unnest(p.running::xid8[]) ran (xid) WHERE pg_visible_in_snapshot(ran.xid, pg_current_snapshot())
    ) AS holds, ARRAY(SELECT pg_catalog.jsonb_array_elements_text(p.closed::jsonb)) AS closed, p.held::jsonb AS held
  FROM clock CROSS JOIN unnest($5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[])
    AS p (slot, first_id, last_id, until_us, running, closed, held)
), left_out AS MATERIALIZED ( -- parsed once, and not for each slot
  SELECT $12::text::jsonb AS keys
)`,
    ', c.walk, c.missed',
    `
  SELECT start.of_slot, m.*,
         CASE WHEN run.walked >= ${LEAST_WALKED} AND (next.id IS NULL OR next.id = pick.first) THEN
           pg_catalog.jsonb_build_object('start', start.id::text, 'last', run.last::text, 'rows', run.walked, 'keys', run.keys, 'dueUs', run.due_us)::text
         END AS walk,
         ${MISSED}
  FROM ${CANDIDATE_SLOTS}
  CROSS JOIN LATERAL (
    SELECT now.held, now.leased, now.any_held, ${slotContext('now.any_held')} AS of_slot, CASE WHEN now.any_held THEN coalesce((
        SELECT max(p.last_id) FROM passed p
        WHERE p.slot = candidate.slot AND p.first_id <= candidate.first_live AND p.last_id >= candidate.first_live AND p.last_id < least(
          (SELECT min(broken.last_id) FROM passed broken
           WHERE broken.slot = candidate.slot AND broken.last_id >= candidate.first_live AND NOT (broken.holds AND now.leased ?& broken.closed AND NOT EXISTS (
             SELECT FROM jsonb_each(broken.held) key WHERE coalesce((now.held -> key.key ->> 1)::bigint, 0) < key.value::bigint))),
          (${DUE_AGAIN} LIMIT 1), (${COME_BACK}), ${HIGHEST_ID})
      ), candidate.first_live) ELSE candidate.first_live END AS id
    FROM (${LOCKED_SLOT}) locked
    CROSS JOIN LATERAL (SELECT ${LEASED_KEYS} || coalesce((SELECT left_out.keys -> locked.slot::text FROM left_out), '{}'::jsonb) AS keys OFFSET 0) leased
    CROSS JOIN LATERAL (
      SELECT locked.held || '{}'::jsonb AS held, leased.keys AS leased, ${anyHeld('leased.keys')}
      OFFSET 0 -- a fence, and a copy: a thousand keys would be fetched from their TOAST table for each row
    ) now
    OFFSET 0
  ) start
  CROSS JOIN LATERAL (${pick}
  ) pick
  CROSS JOIN LATERAL (
    SELECT count(*)::integer AS walked, max(w.id) AS last,
           pg_catalog.jsonb_object_agg(w.key, w.held_us) FILTER (WHERE w.held_us > clock.now_us) AS keys,
           (extract(epoch FROM least(min(w.due_at) FILTER (WHERE w.held_us <= clock.now_us), ${FAR})) * 1000000.0)::bigint AS due_us
    FROM (
      SELECT m.id, m.due_at, coalesce(m.ordering_key, '') AS key, ${heldUntil('m')} AS held_us FROM sluice.message m
      WHERE start.any_held AND ${inSlot('candidate.slot', 'start.id', before('candidate.slot', `coalesce(pick.first, ${HIGHEST_ID})`))}
      ORDER BY m.slot, m.id LIMIT (SELECT ${MOST_WALKED})
    ) w
  ) run
  LEFT JOIN LATERAL (
    SELECT m.id, m.ctid, m.ordering_key
    FROM sluice.message m
    WHERE (pick.first IS NOT NULL OR NOT start.any_held)
      AND ${inSlot('candidate.slot', 'coalesce(pick.first, start.id)', upTo('candidate.slot', `coalesce(pick.last, ${HIGHEST_ID})`))}${isPicked}
      AND CASE WHEN ${isDue('m')} AND ${heldUntil('m')} <= clock.now_us THEN ${isFree('m')} END
    ORDER BY m.slot, m.id
    LIMIT (SELECT ${perSlot})
  ) next ON true
  ${LOCKED_ROW}
  WHERE next.id IS NOT NULL OR run.walked >= ${LEAST_WALKED}`,
  )
export const CLAIM_SLOTS = lockingClaim(
  slotsClaim({
    perSlot: '$13::integer',
    pick: `
    SELECT min(free.id) AS first, max(free.id) AS last FROM (${freeRows('$13::integer', 'start.any_held')}
    ) free`,
    isPicked: '',
  }),
)
/** Of each key the first of its rows that are free: a later one waits for the lease of that. */
export const LEASE_SLOTS = leasingClaim(
  slotsClaim({
    perSlot: String(KEYS_PER_SLOT),
    pick: `
    SELECT min(first.id) AS first, max(first.id) AS last, pg_catalog.array_agg(first.id) AS ids FROM (
      SELECT min(free.id) AS id FROM (${freeRows(String(KEYS_PER_SLOT), 'true')}
      ) free GROUP BY free.ordering_key
    ) first`,
    isPicked: `
      AND m.id = ANY (pick.ids)`,
  }),
  13,
)
