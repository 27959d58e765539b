import { type Execute, numberOf, only, statement } from '../statement.ts'

const BY = "$1::double precision * interval '1 millisecond'"

/** Rows that a transaction has locked stay as they are: of a batch in flight, which a test may wait for. */
function unlocked(table: string, where = `($2::text IS NULL OR l.queue = $2::text)`): string {
  return `t.ctid = ANY (ARRAY(SELECT l.ctid FROM sluice.${table} l WHERE ${where} FOR UPDATE OF l SKIP LOCKED))`
}

function earlier(columns: readonly string[]): string {
  return columns.map((column) => `${column} = t.${column} - ${BY}`).join(', ')
}

function shift(table: string, columns: readonly string[], where = unlocked(table)) {
  return counted(`shift_${table}`, `UPDATE sluice.${table} t SET ${earlier(columns)} WHERE ${where}`)
}

/** An update that returns how many rows it has changed. */
function counted(name: string, update: string) {
  return statement(name, `WITH changed AS (${update} RETURNING true) SELECT count(*)::integer AS changed FROM changed`)
}

/** As for a message that is made due sooner: its slot may have passed it over. */
const SHIFT_MESSAGES = counted(
  'shift_message',
  `
UPDATE sluice.message t
SET due_at = greatest(t.due_at - ${BY}, '0001-01-01 00:00Z'::timestamptz),
    expires_at = CASE WHEN t.expires_at IS NOT NULL
                      THEN greatest(t.expires_at - ${BY}, '0001-01-01 00:00Z'::timestamptz) END,
    redriven = CASE WHEN t.slot IS NOT NULL AND t.due_at > clock_timestamp()
                         AND t.due_at - ${BY} < clock_timestamp() + interval '2 minutes' THEN true ELSE t.redriven END,
    ${earlier(['enqueued_at', 'failed_at'])}
WHERE ${unlocked('message')}`,
)

const SHIFT_HOLDS = counted(
  'shift_slot',
  `
UPDATE sluice.slot t
SET held = (SELECT pg_catalog.jsonb_object_agg(h.key, pg_catalog.jsonb_set(h.value, '{1}'::text[], pg_catalog.to_jsonb(
              (h.value ->> 1)::bigint - ($1::double precision * 1000::double precision)::bigint))) FROM jsonb_each(t.held) h)
WHERE ${unlocked('slot', `($2::text IS NULL OR l.queue = $2::text) AND l.held <> '{}'`)}`,
)

const SHIFT_CLAIMS = counted(
  'shift_claim',
  `
UPDATE sluice.claim t
SET due_ats = ARRAY(SELECT d.at - ${BY} FROM unnest(t.due_ats) WITH ORDINALITY AS d (at, n) ORDER BY d.n),
    ${earlier(['claimed_at', 'renewed_at', 'expires_at'])}
WHERE ${unlocked('claim')}`,
)

/** What falls into the time is due now: earlier it would count as missed. */
const SHIFT_SCHEDULES = counted(
  'shift_schedule',
  `
UPDATE sluice.schedule t
SET next_at = date_trunc('milliseconds', greatest(t.next_at - ${BY}, least(t.next_at, clock_timestamp())))
WHERE ${unlocked('schedule', '($2::text IS NULL OR l.queue = $2::text) AND l.next_at IS NOT NULL')}`,
)

const SHIFT_PARTITIONS = counted(
  'shift_group_progress',
  `
UPDATE sluice.group_progress t
SET ${earlier(['moved_at', 'held_until'])}
WHERE ${unlocked(
    'group_progress',
    `EXISTS (SELECT FROM sluice.stream_group g
      WHERE g.id = l.group_id AND ($2::text IS NULL OR g.stream || ':' || g.name = $2::text))`,
  )}`,
)

const ENDPOINT_TIMES = [
  ...['old_secret_until', 'disabled_at', 'closed_until', 'failing_since', 'warned_at'],
  ...['last_success_at', 'last_failure_at'],
]

const SHIFTS = [
  SHIFT_MESSAGES,
  SHIFT_HOLDS,
  SHIFT_CLAIMS,
  SHIFT_SCHEDULES,
  SHIFT_PARTITIONS,
  shift('dead_letter', ['enqueued_at', 'died_at']),
  // It has partitions, of which two may have a row in the same place.
  shift(
    'completed_message',
    ['enqueued_at', 'failed_at', 'claimed_at', 'completed_at'],
    '($2::text IS NULL OR t.queue = $2::text)',
  ),
  shift('dedupe', ['until']),
  shift('kept_key', ['until']),
  shift('receipt', ['received_at', 'until']),
  shift('bucket', ['at']),
  shift('endpoint', ENDPOINT_TIMES),
]

const WAKE = statement(
  'shift_wake',
  `
SELECT sluice_private.wake(q.queue)
FROM (SELECT DISTINCT m.queue FROM sluice.message m
      WHERE ($1::text IS NULL OR m.queue = $1::text) AND m.due_at <= clock_timestamp()) q`,
)

/**
 * Makes everything in a queue, or in all, older, as if time had passed, and wakes the workers of what is due. For tests: it
 * reads and writes whole tables. Returns how many rows have become older.
 */
export async function shiftTimes(execute: Execute, ms: number, queue: string | null): Promise<number> {
  let changed = 0
  for (const one of SHIFTS) changed += numberOf(only(await execute(one, [ms, queue])), 'changed')
  await execute(WAKE, [queue])
  return changed
}
