import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { SluiceError } from '../../../src/errors.ts'
import { isRefusal } from '../../../src/session/refusal.ts'
import { rowsMissing } from '../../../src/table/rows-missing.ts'

function serverError(code: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError('no', 1, 'error'), { code })
}

describe('what the database says when a settlement is not written', () => {
  test.for([
    ['a trigger that raises', 'P0001', true],
    ['a constraint', '23514', true],
    ['a row-level security policy', '42501', true],
    ['a deadlock, which one row of several may cause', '40P01', true],
    ['a connection that fails', '08006', false],
    ['a full disk', '53100', false],
    ['a server that shuts down', '57P01', false],
    ['an I/O error', '58030', false],
    ['the name of a statement that a pooler has mixed up', '26000', false],
    // These two were refusals to a batch in a transaction alone, so a failover put messages aside for a minute.
    ['a standby, or a server that takes no writes', '25006', false],
    ['a lock that somebody else has', '55P03', false],
  ] as const)('%s (%s) is about a row: %s', ([, state, refused]) => {
    expect(isRefusal(serverError(state))).toBe(refused)
    expect(isRefusal(new Error('Failed query', { cause: serverError(state) }))).toBe(refused)
  })

  test('rows that were left untouched are about a row, which only a batch in a transaction took for one', () => {
    expect(isRefusal(rowsMissing('sluice.message: expected 1 row, took 0'))).toBe(true)
  })

  test('a refused login is about no row, nor is an error without words of the server', () => {
    expect(isRefusal(new SluiceError('UNREACHABLE', 'no', { cause: serverError('28P01') }))).toBe(false)
    expect(isRefusal(new Error('Connection terminated'))).toBe(false)
  })
})
