import { byVersion, ofVersion, placesOf } from '../rows-by-id.ts'
import { requiringRows } from '../rows-missing.ts'
import { type Execute, statement } from '../statement.ts'
import { type Kept, keeping, keptParams } from './keep.ts'

/** A message to try again later, in its own row: same id, same place in its order. */
export interface Postponed {
  readonly id: string
  /** When it falls due, in microseconds since 1970 by the database's clock. */
  readonly dueUs: number
  /** How many tries have failed by now. */
  readonly attempt: number
  /** Null for a snooze, where nothing failed. */
  readonly error: string | null
  /** What else is known of the failure. */
  readonly details?: FailureDetails | undefined
}

export interface Dead {
  readonly id: string
  readonly attempt: number
  readonly reason: string
  readonly error: string | null
  /** What else is known of the failure. */
  readonly details?: FailureDetails | undefined
}

/** Where a message failed: stored beside the error, for those who look for the cause. */
export interface FailureDetails {
  readonly worker: string
  readonly stack?: string | undefined
}

/** As the element of a parameter: JSON. */
export function detailsJson({ details }: { readonly details?: FailureDetails | undefined }): string | null {
  return details === undefined ? null : JSON.stringify(details)
}

/** A key that waits for a message until an instant. */
export interface HeldKey {
  readonly slot: number
  readonly orderingKey: string
  readonly messageId: string
  readonly untilUs: number
}

/**
 * Removes handled messages by the primary key (queue, id). It leaves one dead row each; nothing else was ever written
 * for a message that succeeded at once.
 */
export async function ackMessages(
  execute: Execute,
  queue: string,
  ids: readonly string[],
  serverVersion: number,
): Promise<void> {
  await requiringRows(execute(ofVersion(ACK, serverVersion), [queue, ids]))
}

/** The same in a queue that keeps its history: each row is moved there. */
export async function ackAndKeep(
  execute: Execute,
  queue: string,
  ids: readonly string[],
  kept: Kept,
  serverVersion: number,
): Promise<void> {
  await requiringRows(execute(ofVersion(ACK_AND_KEEP, serverVersion), [queue, ids, ...keptParams(kept)]))
}

/**
 * Gives messages a later due time, in place. The instants are parameters, so the UPDATE reads no clock. One with a dedupe key
 * closes its ordering key, as one that was leased does: a claim that took the message behind it as well would lock that
 * without handling it, and whoever asks for the key would find it in hand and add another one.
 */
export async function postponeMessages(
  execute: Execute,
  queue: string,
  messages: readonly Postponed[],
  nowUs: number,
): Promise<void> {
  const sent = execute(POSTPONE, [
    queue,
    messages.map((message) => message.id),
    messages.map((message) => message.dueUs),
    messages.map((message) => message.attempt),
    messages.map((message) => message.error),
    nowUs,
    messages.map(detailsJson),
  ])
  await requiringRows(sent)
}

/**
 * Messages are due again with the COMMIT: wakes those who sleep, as an enqueue does. This process may be about to end, or busy
 * with others.
 */
export async function wakeSleepers(execute: Execute, queue: string): Promise<void> {
  await execute(WAKE, [queue])
}

/** Moves messages from the hot table to the dead letters. */
export async function deadLetterMessages(execute: Execute, queue: string, messages: readonly Dead[]): Promise<void> {
  const sent = execute(DEAD_LETTER, [
    queue,
    messages.map((message) => message.id),
    messages.map((message) => message.attempt),
    messages.map((message) => message.reason),
    messages.map((message) => message.error),
    messages.map(detailsJson),
  ])
  await requiringRows(sent)
}

/**
 * Writes into slot rows, which the batch has locked, which keys are held, and removes entries whose time has passed.
 */
export async function holdKeys(
  execute: Execute,
  queue: string,
  keys: readonly HeldKey[],
  nowUs: number,
): Promise<void> {
  const sent = execute(HOLD, [
    queue,
    keys.map((key) => key.slot),
    keys.map((key) => key.orderingKey),
    keys.map((key) => key.messageId),
    keys.map((key) => key.untilUs),
    nowUs,
  ])
  await requiringRows(sent)
}

/** Deletes the evidence about messages that have been settled. */
export async function forgetEvidence(execute: Execute, queue: string, ids: readonly string[]): Promise<void> {
  await execute(FORGET, [queue, ids])
}

/** The caller has locked the rows, so they stay in their places. */
const PLACES = placesOf('$2::bigint[]')

/**
 * The end of a statement that has touched rows of sluice.message, named `touched`, and must have touched all of $2.
 * COMMIT leaves in the same packet, so only the server can stop it: the function raises an error. It is called only if
 * the counts differ. Counting takes RETURNING, which fetches each row once more: 12 µs of the server's time for an ack
 * of one, 38 µs for an ack of a hundred, which is 3 per cent of a drain at most.
 */
const REQUIRE_ALL = `
SELECT sluice_private.require_settled('message', $1::text, $2::bigint[], ARRAY(SELECT t.id FROM touched t))
FROM (SELECT count(*) AS n FROM touched) t
WHERE t.n OPERATOR(pg_catalog.<) pg_catalog.cardinality($2::bigint[])`

const ACK = byVersion(
  'ack',
  (found) => `
WITH touched AS (
  DELETE FROM sluice.message m WHERE ${found('$2::bigint[]')} RETURNING m.id
)${REQUIRE_ALL}`,
)

const ACK_AND_KEEP = byVersion(
  'ack_and_keep',
  (found) => `
WITH touched AS (
  DELETE FROM sluice.message m WHERE ${found('$2::bigint[]')} RETURNING m.*
), kept AS (${keeping('touched', 3)}
)
SELECT sluice_private.require_settled('message', $1::text, $2::bigint[], ARRAY(SELECT t.id FROM touched t)),
       sluice_private.require_kept('completed_message', $1::text, t.n, k.n)
FROM (SELECT count(*) AS n FROM touched) t CROSS JOIN (SELECT count(*) AS n FROM kept) k
WHERE t.n OPERATOR(pg_catalog.<) pg_catalog.cardinality($2::bigint[]) OR k.n OPERATOR(pg_catalog.<) t.n`,
)

const POSTPONE = statement(
  'postpone',
  `
WITH touched AS (
  UPDATE sluice.message m
  SET due_at = timestamptz 'epoch' + p.due_us::double precision * interval '1 microsecond',
      attempt = p.attempt,
      last_error = coalesce(p.error, m.last_error),
      failures = CASE WHEN p.error IS NULL THEN m.failures ELSE sluice_private.add_failure(
        m.failures, p.attempt, p.error, p.details::jsonb, timestamptz 'epoch' + $6::bigint::double precision * interval '1 microsecond'
      ) END,
      failed_at = CASE WHEN p.error IS NULL THEN m.failed_at ELSE timestamptz 'epoch' + $6::bigint::double precision * interval '1 microsecond' END,
      lease = CASE WHEN m.slot IS NOT NULL AND (m.lease IS NOT NULL OR m.dedupe_key IS NOT NULL) THEN 0 END
  FROM unnest($2::bigint[], $3::bigint[], $4::integer[], $5::text[], $7::text[]) AS p (id, due_us, attempt, error, details)
  WHERE m.ctid = ANY (${PLACES}) AND m.id = p.id
  RETURNING m.id
)${REQUIRE_ALL}`,
)

const WAKE = statement('settle_wake', 'SELECT sluice_private.wake($1::text)')

const DEAD_LETTER = statement(
  'dead_letter',
  `
WITH dead AS (
  SELECT d.* FROM unnest($2::bigint[], $3::integer[], $4::text[], $5::text[], $6::text[]) AS d (id, attempt, reason, error, details)
), gone AS (
  DELETE FROM sluice.message m WHERE m.ctid = ANY (${PLACES}) RETURNING m.*
), moved AS (
  INSERT INTO sluice.dead_letter
    (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, max_attempts, reason, error, failures,
     enqueued_at, retry_policy, lease_ms, tenant, dedupe_key, dedupe_ms, event_position)
  SELECT g.queue, g.id, g.priority, g.ordering_key, g.type, g.schema_version, g.payload, g.headers, d.attempt, g.max_attempts,
         d.reason, d.error,
         sluice_private.add_failure(g.failures, d.attempt, coalesce(d.error, d.reason), d.details::jsonb, clock_timestamp()),
         g.enqueued_at, g.retry_policy, g.lease_ms, g.tenant, g.dedupe_key, g.dedupe_ms, g.event_position
  FROM gone g JOIN dead d ON d.id = g.id
  RETURNING dead_letter.id
)
SELECT sluice_private.require_settled('message', $1::text, $2::bigint[], ARRAY(SELECT g.id FROM gone g)),
       sluice_private.require_settled('dead_letter', $1::text, ARRAY(SELECT g.id FROM gone g), ARRAY(SELECT m.id FROM moved m))
FROM (SELECT count(*) AS n FROM moved) m
WHERE m.n OPERATOR(pg_catalog.<) pg_catalog.cardinality($2::bigint[])`,
)

const HOLD = statement(
  'hold',
  `
WITH fresh AS (
  SELECT k.slot, pg_catalog.jsonb_object_agg(k.ordering_key, pg_catalog.jsonb_build_array(k.message_id, k.until_us)) AS held
  FROM unnest($2::smallint[], $3::text[], $4::bigint[], $5::bigint[]) AS k (slot, ordering_key, message_id, until_us)
  GROUP BY k.slot
), touched AS (
  UPDATE sluice.slot s
  SET held = (
    SELECT coalesce(pg_catalog.jsonb_object_agg(old.key, old.value), '{}') FROM jsonb_each(s.held) old WHERE (old.value ->> 1)::bigint > $6::bigint
  ) || fresh.held
  FROM fresh
  WHERE s.queue = $1::text AND s.slot = fresh.slot
  RETURNING s.slot
)
SELECT sluice_private.require_settled('slot', $1::text, ARRAY(SELECT f.slot::bigint FROM fresh f), ARRAY(SELECT t.slot::bigint FROM touched t))
FROM (SELECT count(*) AS n FROM touched) t
WHERE t.n OPERATOR(pg_catalog.<) (SELECT count(*) FROM fresh)`,
)

const FORGET = statement(
  'crash_forget',
  'DELETE FROM sluice.crash c WHERE c.queue = $1::text AND c.message_id = ANY ($2::bigint[])',
)
