import type { Edit } from '../rows/edited-functions.ts'

// Changes of functions of schema sluice, for tests that play them: pauses, and what makes a broken twin of one. A text that
// is gone from its function fails in `npm run check`; see test/unit/rules/twins.test.ts.

/** An operation that waits for whoever has the message locked, and for its slot. */
export const OPERATION_WAITING = edit('lock_one', 'FOR UPDATE OF m SKIP LOCKED', 'FOR UPDATE OF m')
export const OPERATION_UNLOCKED = edit('lock_one', 'FOR UPDATE OF m SKIP LOCKED', '')
/** A cancellation leaves the hold of a key as it was. */
export const HOLD_FORGOTTEN = edit(
  'open_key',
  'IF gone.id = ANY (sluice_private.held_for(sluice_private.hold_of(gone))) THEN',
  'IF false THEN',
)
export const HOLD_LEFT_BY_RESCHEDULE = edit('set_due', 'IF held THEN', 'IF false THEN')
export const LEASE_KEPT_BY_CHANGE = edit('end_leases', "IF run_out <> '{}' THEN", 'IF false THEN')
export const EXPIRED_HANDED_OUT = edit('sift_locked', 'WHERE m.expired OR m.tries', 'WHERE m.tries')
export const DEDUPE_KEY_KEPT_BY_EXPIRED = edit('look_at_holder', 'IF seen.there AND seen.expired THEN', 'IF false THEN')

export const UPDATE_WAITING = edit('lock_waiting', 'FOR UPDATE OF m SKIP LOCKED', 'FOR UPDATE OF m')
/** An enqueue changes the message with its dedupe key also while a lease has it. */
export const UPDATE_OF_LEASED = [
  edit('lock_waiting', 'AND (coalesce(m.lease, 0) = 0 OR m.due_at <= clock_timestamp())', ''),
  edit(
    'find_duplicate',
    "ELSIF seen.there AND (seen.lease = 0 OR on_duplicate = 'update' AND seen.due_at <= seen.now_at) AND NOT seen.ours",
    'ELSIF seen.there',
  ),
  edit('change_waiting', 'PERFORM sluice_private.end_leases(queue, ARRAY[message_id]);', ''),
]

/** Functions that leave it to the server when their transaction gets a number. */
export const NUMBERED_LATE = ['insert_plain', 'insert_message'].map((name) =>
  edit(name, 'WHERE pg_current_xact_id() IS NOT NULL', ''),
)

/** A redrive whose DELETE does not decide what is put back. */
export const REDRIVE_READS_FIRST = [
  edit('redrive', 'DELETE FROM sluice.dead_letter d', 'SELECT d.* FROM sluice.dead_letter d'),
  edit('redrive', 'RETURNING d.*', ''),
  edit(
    'redrive',
    '), restored AS (',
    '), gone AS (DELETE FROM sluice.dead_letter d USING chosen c WHERE d.queue = c.queue AND d.id = c.id), restored AS (',
  ),
]

/** Stops a claim when it has seen which permits are free, and before it locks them. */
export const PAUSED_PERMITS = edit(
  'lock_permits',
  'SELECT p.n FROM sluice.permit p',
  `SELECT p.n FROM (SELECT pg_advisory_xact_lock_shared(pg_backend_pid(), hashtext(queue)) OFFSET 0) AS gate
       CROSS JOIN sluice.permit p`,
)
/** A claim that takes permits also if a lease is written into them. */
export const PERMITS_OF_LEASES = edit('lock_permits', 'AND p.message_id IS NULL', '')
/** Who empties permits does not look once more whether their leases have ended. */
export const PERMITS_TRUSTED = edit(
  'end_run_out',
  `AND (m.id <> ALL (run_out) OR m.due_at > clock_timestamp()) LIMIT 1) IS NULL`,
  'AND false) IS NULL',
)
/** Where it has seen which permits to empty, and has not locked them. */
export const PAUSED_EMPTYING = edit(
  'end_run_out',
  'SELECT p.n FROM sluice.permit p',
  'SELECT p.n FROM (SELECT pg_advisory_xact_lock_shared(4242) OFFSET 0) AS gate CROSS JOIN sluice.permit p',
)
export const PAUSED_LEASING = edit(
  'lease_permits',
  'SELECT p.n FROM sluice.permit p',
  'SELECT p.n FROM (SELECT pg_advisory_xact_lock_shared(4242) OFFSET 0) AS gate CROSS JOIN sluice.permit p',
)
export const PAUSED_LOCKING = edit(
  'lock_permits',
  'SELECT p.n FROM sluice.permit p',
  'SELECT p.n FROM (SELECT pg_advisory_xact_lock_shared(4242) OFFSET 0) AS gate CROSS JOIN sluice.permit p',
)
export const PERMITS_UNLOCKED = edit('lock_permits', 'FOR UPDATE OF p SKIP LOCKED', '')
export const BUCKET_UNLOCKED = edit('take_tokens', 'FOR UPDATE SKIP LOCKED;\n  IF NOT FOUND', ';\n  IF NOT FOUND')
export const RENEWED_LATE = edit('renew_permitted', 'AND m.due_at > now_at', '')

const GATE = 'pg_advisory_xact_lock_shared(pg_backend_pid(), hashtext(queue))'

/** Where a claim by the SQL function stops: with a snapshot and nothing locked, or with a slot locked and its keys read. */
export const PAUSED_SQL_CLAIM = {
  'before the lock': [
    edit(
      'lock_unkeyed',
      'FROM generate_series(0, 9) AS p (priority)',
      `FROM (SELECT g, ${GATE} FROM generate_series(0, 9) AS g OFFSET 0) AS p (priority, gate)`,
    ),
    edit('lock_in_slot', 'SELECT s.held INTO held', `PERFORM ${GATE}; SELECT s.held INTO held`),
  ],
  'behind the lock': [edit('lock_in_slot', 'now_at :=', `PERFORM ${GATE}; now_at :=`)],
} as const
/** It does not ask which keys are closed. */
export const CLOSED_KEYS_IGNORED = edit(
  'lock_in_slot',
  'sluice_private.leased_keys(queue, slot, lowest)',
  `'{}'::jsonb`,
)

export const SEEK_UNLOCKED = edit(
  'seek_group',
  'this_group := sluice_private.lock_found_group(log, name);',
  'this_group := sluice_private.find_group(log.stream, name);',
)
/** A segment in which an append is open may go. */
export const OPEN_SEGMENT_GOES = edit('mark_segments', 'EXIT WHEN stable_end < ends;', '')
export const APPENDS_UNLOCKED = edit('lock_shared', 'pg_advisory_xact_lock_shared', 'int4pl')
/** A session that remembers its floors beyond the transaction that has locked them, which loses nothing. */
export const APPENDS_REMEMBERED = edit('open_appends', 'floors::text, true)', 'floors::text, false)')
/** A session that keeps positions for later. */
export const POSITIONS_CACHED = edit('create_stream', 'CACHE 1', 'CACHE 10')
export const SLOW_STABLE_ENDS = edit('stable_ends', 'BEGIN', 'BEGIN PERFORM pg_sleep(0.005);')
/** A look that reads the locks before the head. */
export const HEAD_READ_LATE = edit(
  'stable_ends',
  'IF locks IS NULL THEN',
  'PERFORM pg_sleep(0.005); head := coalesce(pg_sequence_last_value(positions), 0); IF locks IS NULL THEN',
)

function edit(name: string, from: string, to: string): Edit {
  return { name, from, to }
}
