import { deviationsOf, mayIdle } from '../session/session.ts'
import { claimSettings, setLocal } from '../table/planner.ts'

/** When the server ends a transaction by itself. */
export interface TransactionLimit {
  readonly ms: number
  readonly serverVersion: number
}

/** What a transaction begins with: when the server ends it, and how its claim is to be planned. */
export function settings(client: object, limit: TransactionLimit | undefined): string {
  if (limit === undefined) return setLocal(deviationsOf(client))
  return `${limitSettings(client, limit, limit.ms)}; ${claimSettings(deviationsOf(client))}`
}

/**
 * The limits of a transaction of which `restMs` are left. From PostgreSQL 17 on the one for the whole transaction is
 * enough, unless the session limits idle transactions for reasons of its own, which would end each batch whose handlers
 * wait for something else.
 */
export function limitSettings(client: object, { ms, serverVersion }: TransactionLimit, restMs: number): string {
  const idle = `; SET LOCAL idle_in_transaction_session_timeout = ${Math.ceil(ms)}`
  if (serverVersion < 170_000) return idle
  const whole = `; SET LOCAL transaction_timeout = ${Math.ceil(restMs)}`
  return mayIdle(client) ? whole : `${idle}${whole}`
}
