import { byVersion, ofVersion } from '../rows-by-id.ts'
import { type Execute, statement, textOf } from '../statement.ts'
import { type LeasedId, leasedRows } from './fence.ts'

// What is asked and written about leases in flight that are not settled yet. Each statement finds only messages that still
// have their lease, and resolves with their ids.
//
// A renewal or another claim moves a message's row, and a statement that waited for that would find nothing at the old
// ctid. So it is found by its id. Before version 17, where that may read the whole queue, it is found by its
// ctid, and what is missing must be looked for once more. There is no join, so the primary key serves all of them.

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

/** Whether a statement that waited for a row to be moved does not find it: it looks at the row's ctid. */
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

/** Locks those that still have their leases and that no other session has locked. */
export async function unlockedLeased(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  serverVersion: number,
): Promise<readonly string[]> {
  return idsOf(await execute(ofVersion(UNLOCKED, serverVersion), [queue, ...keysOf(messages)]))
}

/** What a settlement was to make of a message. */
export interface SettledAs {
  readonly id: string
  readonly state: 'gone' | 'dead' | 'postponed'
  /** Null if it is gone. */
  readonly attempt: number | null
  /** Null if it is gone or dead. */
  readonly dueUs: number | null
}

/**
 * Those that are as a settlement was to leave them: it has taken effect, although its answer was lost. A message that
 * has been claimed again since is not among them. Asked only when the answer to a COMMIT was lost.
 */
export async function settledBefore(
  execute: Execute,
  queue: string,
  messages: readonly SettledAs[],
): Promise<readonly string[]> {
  const rows = await execute(SETTLED, [
    queue,
    messages.map(({ id }) => id),
    messages.map(({ state }) => state),
    // No NULL: with array_nulls off, an array of integers does not take one.
    messages.map(({ attempt }) => attempt ?? 0),
    messages.map(({ dueUs }) => dueUs ?? 0),
  ])
  return idsOf(rows)
}

function keysOf(messages: readonly LeasedId[]): readonly unknown[] {
  return [messages.map(({ id }) => id), messages.map(({ lease }) => lease)]
}

function idsOf(rows: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  return rows.map((row) => textOf(row, 'id'))
}

const RENEW = byVersion(
  'renew_leases',
  (found) => `
UPDATE sluice.message m
SET due_at = (SELECT c.now FROM (SELECT clock_timestamp() AS now OFFSET 0) c)
               + coalesce(m.lease_ms::double precision, $4::double precision) * interval '1 millisecond'
WHERE ${leasedRows(found, '$3')}
RETURNING m.id::text AS id`,
)

const LOCK = byVersion(
  'lock_leased',
  (found) => `SELECT m.id::text AS id FROM sluice.message m WHERE ${leasedRows(found, '$3')} FOR UPDATE`,
)

const READ = byVersion(
  'read_leased',
  (found) => `SELECT m.id::text AS id FROM sluice.message m WHERE ${leasedRows(found, '$3')}`,
)

const UNLOCKED = byVersion(
  'unlocked_leased',
  (found) => `SELECT m.id::text AS id FROM sluice.message m WHERE ${leasedRows(found, '$3')} FOR UPDATE SKIP LOCKED`,
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
    WHERE m.queue = $1::text AND m.id = s.id AND m.attempt = s.attempt
      AND m.due_at = timestamptz 'epoch' + s.due_us::double precision * interval '1 microsecond'
      AND coalesce(m.lease, 0) = 0
  )
END`,
)
