import { claimSettings, setLocal } from '../table/planner.ts'

/** When the server ends a transaction by itself. */
export interface TransactionLimit {
  readonly ms: number
  /** How long the server waits for the process's next statement. @default as long as for the whole transaction */
  readonly idleMs?: number
  readonly serverVersion: number
}

/**
 * What a transaction begins with: when the server ends it, and how its claim is to be planned.
 *
 * @param deviations the planner's settings that the session has otherwise than our statements need
 */
export function settings(deviations: readonly string[], limit: TransactionLimit | undefined): string {
  if (limit === undefined) return setLocal(deviations)
  return `${limitSettings(limit, limit.ms)}; ${claimSettings(deviations)}`
}

/**
 * The limits of a transaction of which `restMs` are left. Both are always set: the database or the role may have
 * shorter ones, even since a moment ago. The server does not restart the clock of `transaction_timeout` while it runs,
 * so a shorter one must be ended first.
 */
export function limitSettings({ ms, idleMs = ms, serverVersion }: TransactionLimit, restMs: number): string {
  const idle = `; SET LOCAL idle_in_transaction_session_timeout = ${Math.ceil(idleMs)}`
  if (serverVersion < 170_000) return idle
  return `${idle}; SET LOCAL transaction_timeout = 0; SET LOCAL transaction_timeout = ${Math.ceil(restMs)}`
}

/**
 * For a claim under a lease, and for a renewal: COMMIT does not wait for the disk. If the server crashes, the lease is lost, or ends
 * earlier: the message is delivered again, and nothing worse.
 */
export const WITHOUT_DISK = 'SET LOCAL synchronous_commit = off'
