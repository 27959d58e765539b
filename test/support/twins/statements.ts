import type { KnownGroup } from '../../../src/table/stream/known-group.ts'
import type { Rewrite } from '../permutations/rewrite.ts'

// Changes of statements of the library, for tests that play them: pauses, and what makes a broken twin of one. A text that
// is gone from its statement fails in `npm run check`; see test/unit/rules/twins.test.ts.

/** Stops a claim when it has its snapshot and its clock, and before it locks anything; see `PlayedSession.closeGate`. */
export const PAUSED_CLAIM: readonly Rewrite[] = of(
  [
    ...['claim', 'claim_free_slots', 'claim_slots', 'claim_whole_queue'],
    ...['claim_leased', 'claim_free_slots_leased', 'claim_slots_leased'],
    ...['claim_leased_by_ctid', 'claim_free_slots_leased_by_ctid', 'claim_slots_leased_by_ctid'],
  ],
  'SELECT c.now,',
  'SELECT c.now, pg_advisory_xact_lock_shared(pg_backend_pid(), hashtext($1::text)) AS gate,',
)

/** A claim that takes the versions of rows that its snapshot has, whoever has them locked or leased since. */
export const CLAIM_UNLOCKED = of(['claim', 'claim_leased', 'claim_leased_by_ctid'], 'FOR UPDATE OF m SKIP LOCKED', '')
export const KEYED_CLAIM_UNLOCKED = of(['claim_slots'], 'FOR UPDATE OF m SKIP LOCKED', '')
export const SLOT_UNLOCKED = of(['claim_slots'], 'FOR NO KEY UPDATE OF s SKIP LOCKED', '')
/** Skips a locked message, and takes the later ones of its key. */
export const KEYED_CLAIM_SKIPPING = [
  ...of(['claim_slots'], 'WHERE next.id IS NOT NULL OR run.walked', 'WHERE m.id IS NOT NULL OR run.walked'),
  ...of(['claim_free_slots'], 'WHERE next.id IS NOT NULL OR', 'WHERE m.id IS NOT NULL OR'),
]
export const WHOLE_QUEUE_WAITING = of(['claim_whole_queue'], 'FOR UPDATE OF m SKIP LOCKED', 'FOR UPDATE OF m')

const SEEN = `AND CASE WHEN pg_catalog.age(s.xmin) > pg_catalog.age(candidate.oldest::xid8::xid) THEN true
        ELSE s.xmin = (SELECT seen.xmin FROM sluice.slot seen WHERE seen.queue = s.queue AND seen.slot = s.slot) END`

/** A claim that takes messages of a slot whose row has been written since its snapshot. */
export const NEWER_SLOT_TAKEN = of(
  ['claim_free_slots', 'claim_slots'].flatMap((name) => [name, `${name}_leased`, `${name}_leased_by_ctid`]),
  SEEN,
  '',
)

/** The same, and it reads the holds by its snapshot, as if they were in a table of their own; see decision 5. */
export const HELD_BY_SNAPSHOT = [
  ...NEWER_SLOT_TAKEN,
  ...of(
    ['claim_slots'],
    'SELECT s.slot, s.held FROM',
    'SELECT s.slot, (SELECT old.held FROM sluice.slot old WHERE old.queue = s.queue AND old.slot = s.slot) AS held FROM',
  ),
]

/** As if nobody else ran when the claim looked. */
export const CLAIM_ALONE = of(['claim_slots'], 'pg_snapshot_xmin(pg_current_snapshot())::text', `'${2n ** 62n}'`)

const LEASED_KEYS = 'sluice_private.leased_keys($1::text, locked.slot, candidate.floor_id)'
const BY_SNAPSHOT = `(SELECT coalesce(jsonb_object_agg(l.ordering_key, l.id::text), '{}') FROM sluice.message l
    WHERE l.queue = $1::text AND l.slot = locked.slot AND l.lease IS NOT NULL)`

/** The closed keys of a slot as a claim's own snapshot sees them, which is older than its lock. */
export const LEASED_KEYS_OF_SNAPSHOT = of(['claim_free_slots', 'claim_slots'], LEASED_KEYS, BY_SNAPSHOT)
export const LEASED_KEYS_IGNORED = of(['claim_slots'], LEASED_KEYS, `'{}'::jsonb`)
/** A lease closes its key for the messages with higher ids only. */
export const LEASED_KEYS_CLOSED_ABOVE = [
  ...['w', 'm'].flatMap((row) =>
    of(
      ['claim_slots'],
      `${row}.id::text <> start.leased`,
      `EXISTS (SELECT FROM sluice.message l WHERE l.queue = $1::text AND l.lease IS NOT NULL
         AND l.ordering_key = ${row}.ordering_key AND l.id < ${row}.id) AND ${row}.id::text <> start.leased`,
    ),
  ),
  ...of(
    ['claim_slots'],
    'sluice_private.lock_due_again($1::text, m.id)',
    'm.lease IS NULL OR sluice_private.lock_due_again($1::text, m.id)',
  ),
]

/** A leased claim takes several messages of a key. */
export const LEASES_RUN_OF_KEY = of(
  ['claim_slots_leased', 'claim_slots_leased_by_ctid'],
  'GROUP BY free.ordering_key',
  'GROUP BY free.id',
)

/** A claim that does not say which leases have run out. */
export const RUN_OUT_UNTOLD = of(
  ['claim', 'claim_slots', 'claim_free_slots'].flatMap((name) => [`${name}_leased`, `${name}_leased_by_ctid`]),
  'FROM picked p WHERE p.lease > 0',
  'FROM picked p WHERE false',
)

const OWN_LEASE = 'm.lease = ($3::bigint[])[pg_catalog.array_position($2::bigint[], m.id)]'
const OWN_LEASE_IN_ORDER = 'm.lease = ($3::bigint[])[pg_catalog.width_bucket(m.id, $2::bigint[])]'
const ANY_LEASE = '$3::bigint[] IS NOT NULL'
export const ACK_OF_ANY_LEASE = of(['ack_leased', 'ack_leased_by_ctid'], OWN_LEASE_IN_ORDER, ANY_LEASE)
export const RENEWAL_OF_ANY_LEASE = of(['renew_leases', 'renew_leases_by_ctid'], OWN_LEASE, ANY_LEASE)

const KEY_CLOSED = 'lease = sluice_private.idle_lease(m.slot, m.lease, m.dedupe_key, m.expires_at)'
const KEY_OPENED = 'lease = NULL'
/** A message that is given up leaves its key open. */
export const RETRY_OPENS_KEY = of(['postpone_leased', 'postpone_leased_by_ctid'], KEY_CLOSED, KEY_OPENED)
export const RESCUE_OPENS_KEY = of(['worker_reap'], KEY_CLOSED, KEY_OPENED)
export const RESCUE_OF_ANY_LEASE = of(['worker_reap'], 'AND r.lease = l.lease LIMIT', 'LIMIT')

export const FLAG_LOWERED_SILENTLY = of(['flag_lower'], `pg_notify('sluice', $2::text)`, '$2::text')

/** Its transaction gets its number when the server gives it one. */
export const INSERT_NUMBERED_LATE = of(['insert'], 'WHERE pg_catalog.pg_current_xact_id() IS NOT NULL', 'WHERE true')

/** A group, by name and by what is known of it. */
export interface TwinOfGroup {
  readonly stream: string
  readonly group: KnownGroup
}

/** Stops a claim of events where it has its snapshot and no lock. */
export const PAUSED_EVENT_CLAIM = ({ stream, group }: TwinOfGroup) =>
  of(
    [`event_lock_${group.streamId}_0`],
    'clock_timestamp() AS now',
    `clock_timestamp() AS now, pg_advisory_xact_lock_shared(pg_backend_pid(), hashtext('${stream}')) AS gate`,
  )

/** A claim that looks in the snapshot of its lock whether the group's queue has keys. */
export const KEYS_ASKED_BEFORE_LOCK = ({ stream, group }: TwinOfGroup) => [
  ...alsoInLock(
    group,
    'twin.keyed',
    `EXISTS (SELECT FROM sluice.message m WHERE m.queue = '${stream}:g' AND m.slot IS NOT NULL)`,
  ),
  ...of(
    [`event_read_${group.streamId}_0`],
    ') IS NOT NULL ELSE false END AS keyed',
    ") IS NULL AND false ELSE false END OR pg_catalog.current_setting('twin.keyed')::boolean AS keyed",
  ),
]

/** A claim that looks in the snapshot of its lock whether the group's queue may have messages. */
export const QUEUE_ASKED_BEFORE_LOCK = ({ group }: TwinOfGroup) => [
  ...alsoInLock(group, 'twin.noted', `EXISTS (SELECT FROM sluice.group_queued q WHERE q.group_id = ${group.groupId})`),
  ...of(
    [`event_read_${group.streamId}_0`],
    'EXISTS (SELECT FROM sluice.group_queued q WHERE q.group_id = $2::integer)',
    "pg_catalog.current_setting('twin.noted')::boolean",
  ),
]

function alsoInLock({ streamId }: KnownGroup, setting: string, value: string): readonly Rewrite[] {
  return of(
    [`event_lock_${streamId}_0`],
    'AS elsewhere\n',
    `AS elsewhere, pg_catalog.set_config('${setting}', (${value})::text, true)\n`,
  )
}

function of(statements: readonly string[], from: string, to: string): readonly Rewrite[] {
  return statements.map((statement) => ({ statement, from, to }))
}
