import pg from 'pg'
import { expect, test } from 'vitest'
import { commitFailed } from '../../src/transaction/commit-failed.ts'

const REFUSED = expect.stringContaining('nothing of the transaction has taken effect')
const UNKNOWN = expect.stringContaining('unknown')

test.for([
  ['23505', REFUSED, REFUSED],
  ['40001', REFUSED, REFUSED],
  ['P0001', REFUSED, REFUSED],
  // A trigger may raise anything, and so may a setting of the next transaction.
  ['22012', REFUSED, UNKNOWN],
  ['57014', UNKNOWN, UNKNOWN],
  ['57P01', UNKNOWN, UNKNOWN],
  ['25P04', UNKNOWN, UNKNOWN],
  ['53100', UNKNOWN, UNKNOWN],
] as const)('%s in answer to COMMIT, alone and chained', ([state, alone, chained]) => {
  const cause = Object.assign(new pg.DatabaseError('no', 1, 'error'), { code: state })
  expect(commitFailed(cause, false)).toMatchObject({ code: 'COMMIT_FAILED', message: alone, cause })
  expect(commitFailed(cause, true)).toMatchObject({ code: 'COMMIT_FAILED', message: chained, cause })
})

test('a connection that is lost', () => {
  expect(commitFailed(new Error('Connection terminated'), false).message).toEqual(UNKNOWN)
})
