import type { LogEvent } from 'kysely'
import { DatabaseError } from 'pg'
import { INSUFFICIENT_PRIVILEGE } from '../basics/errors/sql-state.ts'
import { errorText, SluiceError } from '../errors.ts'
import type { MigrationRights } from '../table/schema.ts'
import { grantFor } from './grant-for.ts'

/**
 * Why a migration failed. Kysely goes on after some errors and then reports the next one, which only says that the
 * transaction is aborted. The first error is the reason.
 */
export class MigrationFailure {
  /** The rights of the role that migrates, as soon as they are known. */
  rights: MigrationRights | undefined
  /** The migration that failed, if one had begun. */
  migration: string | undefined
  #first: unknown

  readonly log = (event: LogEvent): void => {
    if (event.level === 'error') this.#first ??= event.error
  }

  /** TRANSACTION_FAILED with the reason, and with the remedy if it is known. */
  toError(last: unknown): SluiceError {
    const cause = this.#first ?? last
    const remedy = this.#remedyFor(cause)
    const what = this.migration === undefined ? 'The migration' : `Migration ${this.migration}`
    const sentence = `${what} failed and was rolled back: ${errorText(cause)}`
    return new SluiceError('TRANSACTION_FAILED', remedy === undefined ? sentence : `${sentence}. ${remedy}`, { cause })
  }

  #remedyFor(cause: unknown): string | undefined {
    if (!(cause instanceof DatabaseError)) return undefined
    if (cause.code !== undefined && LOCK_CODES.includes(cause.code)) return END_OTHERS
    if (cause.code === DUPLICATE_SCHEMA) return LEFT_OVER
    return cause.code === INSUFFICIENT_PRIVILEGE && this.rights !== undefined ? grantFor(this.rights) : undefined
  }
}

/** Whether the migration gave way because others held a lock. Another attempt may find it free. */
export function metLock(error: unknown): error is SluiceError {
  if (!(error instanceof SluiceError) || !(error.cause instanceof DatabaseError)) return false
  return error.cause.code !== undefined && LOCK_CODES.includes(error.cause.code)
}

/** Of `sluice_private`: schema "sluice" may be there before. */
const DUPLICATE_SCHEMA = '42P06'
const LEFT_OVER =
  'If only schema "sluice" was dropped, drop its functions as well: `DROP SCHEMA sluice_private CASCADE`'

/** deadlock_detected, lock_not_available */
const LOCK_CODES = ['40P01', '55P03']
const END_OTHERS =
  'End the transactions that hold the tables of schema "sluice" (see pg_stat_activity), and run it again'
