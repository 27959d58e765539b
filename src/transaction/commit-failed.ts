import pg from 'pg'
import { SluiceError } from '../errors.ts'

/**
 * What an error in answer to COMMIT means. An error that ends no session is COMMIT's own, and rolls back.
 *
 * @param chained whether settings of the next transaction were sent with it: then the error may be theirs, unless it is of
 * a kind that only COMMIT has, as deferred constraints and triggers raise it.
 */
export function commitFailed(cause: unknown, chained: boolean): SluiceError {
  const state = cause instanceof pg.DatabaseError ? (cause.code ?? '') : ''
  const refused = chained ? OF_COMMIT.test(state) : state !== '' && !MAY_COME_LATER.test(state)
  const sentence = refused
    ? 'The server refused COMMIT: nothing of the transaction has taken effect'
    : 'COMMIT was not answered: whether it took effect is unknown'
  return new SluiceError('COMMIT_FAILED', sentence, { cause })
}

/** Constraints, serialisation and deadlocks, and what a trigger raises. */
const OF_COMMIT = /^(23|40|P0)/

/** Of connections, resources, administrators, the system and the server itself: they may come when COMMIT has taken effect. */
const MAY_COME_LATER = /^(08|25P0[34]|53|57|58|XX)/
