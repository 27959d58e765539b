import { statement } from './statement.ts'

/**
 * Succeeds, and changes nothing, exactly if a transaction block is open and has not failed: outside one the server
 * refuses it (25P01), in a failed one too (25P02). One round trip, where a savepoint takes two. A lock that every
 * session takes now and then, on what everybody may read: on our own table it would take a right to all its columns.
 */
export const TRANSACTION_PROBE = statement(
  'transaction_probe',
  'LOCK TABLE pg_catalog.pg_namespace IN ACCESS SHARE MODE',
)
