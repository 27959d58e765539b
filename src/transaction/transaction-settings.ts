import { deviationsOf } from '../session/session.ts'
import { claimSettings, setLocal } from '../table/planner.ts'

/** What a transaction begins with: when the server ends it, and how its claim is to be planned. */
export function settings(client: object, limit: TransactionLimit | undefined): string {
  if (limit === undefined) return setLocal(deviationsOf(client))
  return `${limitSettings(limit, limit.ms)}; ${claimSettings(deviationsOf(client))}`
}

export function limitSettings(limit: TransactionLimit, restMs: number): string {
  const ms = Math.ceil(limit.ms)
  const whole = limit.serverVersion >= 170_000 ? `; SET LOCAL transaction_timeout = ${Math.ceil(restMs)}` : ''
  return `; SET LOCAL idle_in_transaction_session_timeout = ${ms}${whole}`
}

/** When the server ends a transaction by itself. */
export interface TransactionLimit {
  readonly ms: number
  readonly serverVersion: number
}
