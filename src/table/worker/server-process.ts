import type { ServerTransaction } from '../claim/claim.ts'
import { booleanOf, type Execute, numberOf, statement } from '../statement.ts'

/**
 * Cancels the running statement of a transaction of ours that is still open. Resolves when the signal is sent. Behind a
 * pooler the server process serves others once that transaction has ended, and then nothing is cancelled.
 */
export async function cancelStatement(execute: Execute, { pid, startedUs }: ServerTransaction): Promise<void> {
  await execute(CANCEL, [pid, startedUs])
}

/** The transaction that is open on this connection. */
export async function readTransaction(execute: Execute): Promise<ServerTransaction> {
  const [row] = await execute(OWN, [])
  if (row === undefined) throw new TypeError('expected the transaction of the connection')
  return { pid: numberOf(row, 'pid'), startedUs: numberOf(row, 'started_us') }
}

/**
 * Ends a transaction of ours that is still open, with its session: whatever it runs or waits for, and what has been sent behind
 * that, does not happen. Resolves when the signal is sent. Behind a pooler as {@link cancelStatement}.
 */
export async function endTransaction(execute: Execute, { pid, startedUs }: ServerTransaction): Promise<void> {
  await execute(END, [pid, startedUs])
}

/**
 * What a server process does. It is busy, perhaps waiting for a lock or, in COMMIT, for a standby; or it is not; or the
 * server does not say, because there is no such process, it belongs to another login, or activities are not tracked.
 */
export type ServerWork = 'busy' | 'none' | 'unknown'

/** @param ms the process counts as busy only with a transaction that is older than this */
export async function workOf(execute: Execute, pid: number, ms: number): Promise<ServerWork> {
  const [row] = await execute(WORKS_SINCE, [pid, ms])
  if (row === undefined) return 'unknown'
  return booleanOf(row, 'busy') ? 'busy' : 'none'
}

const OWN = statement(
  'own_transaction',
  `
SELECT pg_backend_pid() AS pid,
       (date_part('epoch', transaction_timestamp()) * 1000000::double precision)::bigint AS started_us`,
)

const OF_TRANSACTION = `
FROM pg_stat_activity a
WHERE a.pid = $1::integer AND (date_part('epoch', a.xact_start) * 1000000::double precision)::bigint = $2::bigint`

const CANCEL = statement('cancel', `SELECT pg_cancel_backend(a.pid)${OF_TRANSACTION}`)

const END = statement('end_transaction', `SELECT pg_terminate_backend(a.pid)${OF_TRANSACTION}`)

const WORKS_SINCE = statement(
  'works_since',
  `
SELECT coalesce(a.state = 'active' AND a.xact_start <= clock_timestamp() - $2::double precision * interval '1 millisecond', false) AS busy
FROM pg_stat_activity a
WHERE a.pid = $1::integer AND a.state <> 'disabled'`,
)
