import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { wordsOf } from '../../../src/basics/errors/words-of.ts'
import { unreachable } from '../../../src/connection/unreachable.ts'

describe('UNREACHABLE', () => {
  test.for<readonly [string, unknown, string]>([
    [
      'a refused login',
      databaseError('28P01', 'password authentication failed for user "me"'),
      'password authentication failed for user "me". Check the user and the password',
    ],
    [
      'a database that is not there',
      databaseError('3D000', 'database "app" does not exist'),
      'database "app" does not exist. Check the name of the database',
    ],
    [
      'a server without room',
      databaseError('53300', 'sorry, too many clients already'),
      'sorry, too many clients already. Raise max_connections',
    ],
    [
      'a role without room',
      databaseError('53300', 'too many connections for role "app"', 'InitializeSessionUserId'),
      'too many connections for role "app". Raise the limit of the role, as in `ALTER ROLE "app" CONNECTION LIMIT 100`',
    ],
    [
      'a role without room, in another language',
      databaseError('53300', 'zu viele Verbindungen für Rolle »app«', 'InitializeSessionUserId'),
      'zu viele Verbindungen für Rolle »app«. Raise the limit of the role, as in `ALTER ROLE "app" CONNECTION LIMIT 100`',
    ],
    [
      'a database without room',
      databaseError('53300', 'too many connections for database "app"', 'CheckMyDatabase'),
      'too many connections for database "app". Raise the limit of the database, as in `ALTER DATABASE "app" CONNECTION',
    ],
    [
      'nobody at the port',
      systemError('ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:5432'),
      'connect ECONNREFUSED 127.0.0.1:5432. Check the host and the port',
    ],
    [
      'no such host',
      systemError('ENOTFOUND', 'getaddrinfo ENOTFOUND db.invalid'),
      'getaddrinfo ENOTFOUND db.invalid. Check the name of the host',
    ],
    [
      'nobody at any address of a host',
      new AggregateError([
        systemError('ECONNREFUSED', 'connect ECONNREFUSED ::1:1'),
        systemError('ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:1'),
      ]),
      'connect ECONNREFUSED ::1:1, connect ECONNREFUSED 127.0.0.1:1. Check the host and the port',
    ],
    [
      'a connection string that cannot be read',
      systemError('ERR_INVALID_URL', 'Invalid URL'),
      'Invalid URL. Check the connection string: in a password, ',
    ],
    ['no answer', new Error('timeout expired'), 'it did not answer within the connect timeout. Check the connection'],
    ['anything', 'nothing', 'nothing. Check the connection settings'],
  ])('says of %s what the server or the socket said, and what to do', ([, cause, words]) => {
    const error = unreachable(cause)
    expect(error.message).toContain(`The database cannot be reached: ${words}`)
    expect(error).toMatchObject({ code: 'UNREACHABLE', cause })
  })

  test('tells the attempts at all addresses of a host, each once', () => {
    const refused = ['::1', '127.0.0.1', '127.0.0.1'].map((address) => new Error(`connect ECONNREFUSED ${address}:1`))
    expect(wordsOf(new AggregateError(refused))).toBe('connect ECONNREFUSED ::1:1, connect ECONNREFUSED 127.0.0.1:1')
  })
})

function databaseError(code: string, message: string, routine?: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError(message, message.length, 'error'), { code, routine })
}

function systemError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}
