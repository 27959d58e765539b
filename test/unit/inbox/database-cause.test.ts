import pg from 'pg'
import { expect, test } from 'vitest'
import { unreachable } from '../../../src/connection/unreachable.ts'
import { type ErrorCode, SluiceError } from '../../../src/errors.ts'
import { databaseCause } from '../../../src/inbox/database-cause.ts'

function ofServer(code: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError('refused', 0, 'error'), { code })
}

test.for([
  ['a missing privilege', '42501', 'settings'],
  ['a missing table', '42P01', 'settings'],
  ['a missing schema', '3F000', 'settings'],
  ['a missing function', '42883', 'settings'],
  ['a wrong password', '28P01', 'settings'],
  ['a login without permission', '28000', 'settings'],
  ['a missing database', '3D000', 'settings'],
  ['a constraint', '23514', 'settings'],
  ['a trigger', 'P0001', 'settings'],
  ['a lock that was not to be had', '55P03', 'outage'],
  ['a statement that took too long', '57014', 'outage'],
  ['a server that stops', '57P01', 'outage'],
  ['a server that starts', '57P03', 'outage'],
  ['too many connections', '53300', 'outage'],
  ['a full disk', '53100', 'outage'],
  ['a lost connection', '08006', 'outage'],
  ['a deadlock', '40P01', 'outage'],
  ['a standby', '25006', 'outage'],
  ['a transaction that was ended', '25P03', 'outage'],
  ['a statement whose name a pooler has mixed up', '26000', 'outage'],
  ['a statement whose name a pooler has given twice', '42P05', 'outage'],
  ['an internal error', 'XX000', 'outage'],
] as const)('%s, %s, is of the %s', ([, state, cause]) => {
  expect(databaseCause(ofServer(state))).toBe(cause)
  expect(databaseCause(unreachable(ofServer(state)))).toBe(cause)
  expect(databaseCause(new Error('Failed query', { cause: ofServer(state) }))).toBe(cause)
})

test.for([
  ['SCHEMA_MISSING', 'settings'],
  ['SCHEMA_TOO_OLD', 'settings'],
  ['PRIVILEGE_MISSING', 'settings'],
  ['UNREACHABLE', 'outage'],
  ['COMMIT_FAILED', 'outage'],
  ['TABLE_LOCKED', 'outage'],
] as const satisfies readonly (readonly [ErrorCode, unknown])[])('%s is of the %s', ([code, cause]) => {
  expect(databaseCause(new SluiceError(code, 'refused'))).toBe(cause)
})

test.for([
  ['no server', Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }), 'outage'],
  ['a full pool', new Error('timeout exceeded when trying to connect'), 'outage'],
  ['a connection that ends', new Error('Connection terminated unexpectedly'), 'outage'],
  ['a server without TLS', new Error('The server does not support SSL connections'), 'settings'],
  ['a missing password', new Error('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string'), 'settings'],
  ['a certificate', Object.assign(new Error('self-signed'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }), 'settings'],
] as const)('%s is of the settings, or an outage', ([, error, cause]) => {
  expect(databaseCause(error)).toBe(cause)
  expect(databaseCause(unreachable(error))).toBe(cause)
})
