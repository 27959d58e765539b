import { byVersion, ofVersion } from '../rows-by-id.ts'
import { requiringRows } from '../rows-missing.ts'
import { type Execute, statement, textOf } from '../statement.ts'
import { type Kept, keeping, keptParams } from './keep.ts'
import { type Dead, detailsJson, type Postponed } from './settle.ts'

/** A message, and the lease under which it may be settled. */
export interface LeasedId {
  readonly id: string
  readonly lease: string
}

/**
 * Each of these settles only messages that still have their lease, and resolves with the ids of those that it has settled.
 * What is missing was lost: its lease ran out and somebody else took it, its worker was taken for dead, or it is gone. To
 * send one again is harmless.
 *
 * A renewal or another claim moves a message's row, and a statement that waited for that would find nothing at the old
 * place. So it is found by its id. Before version 17, where that may read the whole queue, it is found by its place, and
 * what is missing must be looked for once more. There is no join, so the primary key serves all of them.
 */
export async function ackLeased(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  serverVersion: number,
): Promise<readonly string[]> {
  return idsOf(await execute(ofVersion(ACK, serverVersion), [queue, ...keysOf(messages)]))
}

/** The same in a queue that keeps its history: each row is moved there. */
export async function ackAndKeepLeased(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  kept: Kept,
  serverVersion: number,
): Promise<readonly string[]> {
  const params = [queue, ...keysOf(messages), ...keptParams(kept)]
  return idsOf(await requiringRows(execute(ofVersion(ACK_AND_KEEP, serverVersion), params)))
}

/** Gives leases up, with a later due time: for a retry, a snooze, or at once. */
export async function postponeLeased(
  execute: Execute,
  queue: string,
  messages: readonly (Postponed & LeasedId)[],
  nowUs: number,
  serverVersion: number,
): Promise<readonly string[]> {
  const rows = await execute(ofVersion(POSTPONE, serverVersion), [
    queue,
    ...keysOf(messages),
    messages.map((message) => message.dueUs),
    messages.map((message) => message.attempt),
    messages.map((message) => message.error),
    nowUs,
    messages.map(detailsJson),
  ])
  return idsOf(rows)
}

/** Moves leased messages to the dead letters. */
export async function deadLetterLeased(
  execute: Execute,
  queue: string,
  messages: readonly (Dead & LeasedId)[],
  serverVersion: number,
): Promise<readonly string[]> {
  const rows = await execute(ofVersion(DEAD_LETTER, serverVersion), [
    queue,
    ...keysOf(messages),
    messages.map((message) => message.attempt),
    messages.map((message) => message.reason),
    messages.map((message) => message.error),
    messages.map(detailsJson),
  ])
  return idsOf(rows)
}

/** Makes leases last `ms` from now, or as long as the message itself says. */
export async function renewLeases(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  ms: number,
  serverVersion: number,
): Promise<readonly string[]> {
  return idsOf(await execute(ofVersion(RENEW, serverVersion), [queue, ...keysOf(messages), ms]))
}

/** Locks messages that still have their leases, for the transaction of a handler. */
export async function lockLeased(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  serverVersion: number,
): Promise<readonly string[]> {
  const lock = async () => idsOf(await execute(ofVersion(LOCK, serverVersion), [queue, ...keysOf(messages)]))
  const ids = await lock()
  return missesMoved(serverVersion) && ids.length < messages.length ? lock() : ids
}

/** Whether a statement that waited for a row to be moved does not find it: it looks at the row's place. */
function missesMoved(serverVersion: number): boolean {
  return serverVersion < 170_000
}

/** Those that still have their leases. */
export async function readLeased(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  serverVersion: number,
): Promise<readonly string[]> {
  return idsOf(await execute(ofVersion(READ, serverVersion), [queue, ...keysOf(messages)]))
}

/** Locks those that still have their leases and that nobody else has locked. */
export async function unlockedLeased(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  serverVersion: number,
): Promise<readonly string[]> {
  return idsOf(await execute(ofVersion(UNLOCKED, serverVersion), [queue, ...keysOf(messages)]))
}

/** What a settlement was to make of a message. */
export interface Settled {
  readonly id: string
  readonly state: 'gone' | 'dead' | 'postponed'
  /** Null if it is gone. */
  readonly attempt: number | null
  /** Null if it is gone or dead. */
  readonly dueUs: number | null
}

/**
 * Those that are as a settlement was to leave them: it has taken effect, although nobody heard that it did. A message that
 * has been claimed again since is not among them. Asked only when the answer to a COMMIT was lost.
 */
export async function settledLeased(
  execute: Execute,
  queue: string,
  messages: readonly Settled[],
): Promise<readonly string[]> {
  const rows = await execute(SETTLED, [
    queue,
    messages.map(({ id }) => id),
    messages.map(({ state }) => state),
    messages.map(({ attempt }) => attempt),
    messages.map(({ dueUs }) => dueUs),
  ])
  return idsOf(rows)
}

function keysOf(messages: readonly LeasedId[]): readonly unknown[] {
  return [messages.map(({ id }) => id), messages.map(({ lease }) => lease)]
}

function idsOf(rows: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  return rows.map((row) => textOf(row, 'id'))
}

/** The message's own element of a parameter that is an array. */
export const own = (parameter: string) => `(${parameter})[pg_catalog.array_position($2::bigint[], m.id)]`

/** The messages that still have their leases. The subselect hides how many there are, as in transactional mode. */
export const ours = (found: (ids: string) => string) => `${found('$2::bigint[]')} AND m.lease = ${own('$3::bigint[]')}`

const microseconds = (us: string) => `timestamptz 'epoch' + ${us}::double precision * interval '1 microsecond'`

const ACK = byVersion(
  'ack_leased',
  (found) => `DELETE FROM sluice.message m WHERE ${ours(found)} RETURNING m.id::text AS id`,
)

const ACK_AND_KEEP = byVersion(
  'ack_and_keep_leased',
  (found) => `
WITH gone AS (
  DELETE FROM sluice.message m WHERE ${ours(found)} RETURNING m.*
), kept AS (${keeping('gone', 4)}
)
SELECT g.id::text AS id, r.required
FROM gone g CROSS JOIN (
  SELECT sluice_private.require_kept('completed_message', $1::text, (SELECT count(*) FROM gone), (SELECT count(*) FROM kept)) AS required
  OFFSET 0 -- a fence: called once
) r`,
)

// A message with an ordering key keeps 0: its key stays closed for the later ones until it is settled.
const POSTPONE = byVersion(
  'postpone_leased',
  (found) => `
UPDATE sluice.message m
SET due_at = ${microseconds(own('$4::bigint[]'))},
    attempt = ${own('$5::integer[]')},
    last_error = coalesce(${own('$6::text[]')}, m.last_error),
    failures = CASE WHEN ${own('$6::text[]')} IS NULL THEN m.failures ELSE sluice_private.add_failure(
      m.failures, ${own('$5::integer[]')}, ${own('$6::text[]')}, ${own('$8::text[]')}::jsonb, ${microseconds('$7::bigint')}
    ) END,
    failed_at = CASE WHEN ${own('$6::text[]')} IS NULL THEN m.failed_at ELSE ${microseconds('$7::bigint')} END,
    lease = CASE WHEN m.slot IS NOT NULL THEN 0 END
WHERE ${ours(found)}
RETURNING m.id::text AS id`,
)

const DEAD_LETTER = byVersion(
  'dead_letter_leased',
  (found) => `
WITH gone AS (
  DELETE FROM sluice.message m WHERE ${ours(found)}
  RETURNING m.*, ${own('$4::integer[]')} AS tries, ${own('$5::text[]')} AS reason, ${own('$6::text[]')} AS error,
            ${own('$7::text[]')} AS details
), buried AS (
  INSERT INTO sluice.dead_letter
    (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, max_attempts, reason, error, failures,
     enqueued_at, retry_policy, lease_ms, tenant, dedupe_key, dedupe_ms, event_position)
  SELECT g.queue, g.id, g.priority, g.ordering_key, g.type, g.schema_version, g.payload, g.headers, g.tries, g.max_attempts,
         g.reason, g.error,
         sluice_private.add_failure(g.failures, g.tries, coalesce(g.error, g.reason), g.details::jsonb, clock_timestamp()),
         g.enqueued_at, g.retry_policy, g.lease_ms, g.tenant, g.dedupe_key, g.dedupe_ms, g.event_position
  FROM gone g
  RETURNING dead_letter.id
)
SELECT g.id::text AS id, r.required
FROM gone g CROSS JOIN (
  SELECT sluice_private.require_settled('dead_letter', $1::text, ARRAY(SELECT g.id FROM gone g), ARRAY(SELECT b.id FROM buried b)) AS required
  OFFSET 0 -- a fence: called once, and also if nothing was buried
) r`,
)

const RENEW = byVersion(
  'renew_leases',
  (found) => `
UPDATE sluice.message m
SET due_at = (SELECT c.now FROM (SELECT clock_timestamp() AS now OFFSET 0) c)
               + coalesce(m.lease_ms::double precision, $4::double precision) * interval '1 millisecond'
WHERE ${ours(found)}
RETURNING m.id::text AS id`,
)

const LOCK = byVersion(
  'lock_leased',
  (found) => `SELECT m.id::text AS id FROM sluice.message m WHERE ${ours(found)} FOR UPDATE`,
)

const READ = byVersion('read_leased', (found) => `SELECT m.id::text AS id FROM sluice.message m WHERE ${ours(found)}`)

const UNLOCKED = byVersion(
  'unlocked_leased',
  (found) => `SELECT m.id::text AS id FROM sluice.message m WHERE ${ours(found)} FOR UPDATE SKIP LOCKED`,
)

// A few descents of the primary keys (queue, id) of both tables for each message.
const SETTLED = statement(
  'settled_leased',
  `
SELECT s.id::text AS id
FROM unnest($2::bigint[], $3::text[], $4::integer[], $5::bigint[]) AS s (id, state, attempt, due_us)
WHERE CASE s.state
  WHEN 'gone' THEN NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = $1::text AND m.id = s.id)
  WHEN 'dead' THEN EXISTS (
    SELECT FROM sluice.dead_letter d WHERE d.queue = $1::text AND d.id = s.id AND d.attempt = s.attempt
  )
  ELSE EXISTS (
    SELECT FROM sluice.message m
    WHERE m.queue = $1::text AND m.id = s.id AND m.attempt = s.attempt AND m.due_at = ${microseconds('s.due_us')}
      AND coalesce(m.lease, 0) = 0
  )
END`,
)
