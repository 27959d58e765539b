import { statement } from './statement.ts'

/**
 * Succeeds, and changes nothing, exactly if a transaction block is open and has not failed: outside one the server
 * refuses it (25P01), in a failed one too (25P02). One round trip, where a savepoint takes two. The lock is the one
 * that the INSERT to come takes, and needs the same privilege.
 */
export const TRANSACTION_PROBE = statement('transaction_probe', 'LOCK TABLE sluice.message IN ROW EXCLUSIVE MODE')
