import pg from 'pg'
import { expect, test } from 'vitest'
import { commitFailed } from '../../../src/transaction/commit-answer.ts'

const REFUSED = expect.stringContaining('nothing of the transaction has taken effect')
const UNKNOWN = expect.stringContaining('unknown')

function serverError(code: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError('no', 1, 'error'), { code })
}

test.for([
  ['23505', REFUSED],
  ['40001', REFUSED],
  ['P0001', REFUSED],
  // A trigger may raise anything.
  ['22012', REFUSED],
  ['57014', UNKNOWN],
  ['57P01', UNKNOWN],
  ['25P04', UNKNOWN],
  ['53100', UNKNOWN],
] as const)('%s in answer to COMMIT', ([state, message]) => {
  const error = serverError(state)
  expect(commitFailed({ tag: undefined, error })).toMatchObject({ code: 'COMMIT_FAILED', message, cause: error })
})

test('a connection that is lost before the answer', () => {
  const error = new Error('Connection terminated')
  expect(commitFailed({ tag: undefined, error })?.message).toEqual(UNKNOWN)
})

test('an error behind the answer is not the answer', () => {
  expect(commitFailed({ tag: 'COMMIT', error: serverError('57014') })).toBeUndefined()
  const before = new Error('why it is aborted')
  expect(commitFailed({ tag: 'ROLLBACK', error: serverError('57014') }, before)).toMatchObject({
    message: 'COMMIT: expected the command tag COMMIT, received ROLLBACK',
    cause: before,
  })
})
