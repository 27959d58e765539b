import { statement } from '../statement.ts'

/**
 * Succeeds, and changes nothing, if a transaction block is open and has not failed. The server refuses it outside of
 * one (25P01) and in a failed one (25P02). It takes one round trip, where a savepoint takes two. The lock is one that
 * every session takes now and then, on a catalog that everybody may read: on our own table it would need a right to all
 * columns.
 */
export const TRANSACTION_PROBE = statement(
  'transaction_probe',
  'LOCK TABLE pg_catalog.pg_namespace IN ACCESS SHARE MODE',
)
