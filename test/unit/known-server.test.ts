import { describe, expect, test } from 'vitest'
import { KnownServer } from '../../src/claim/known-server.ts'

describe('a server that tells what it is known by', () => {
  test('is known behind every new connection', () => {
    const server = new KnownServer()
    expect(server.meet({})).toBe(true)
    expect(server.answered('1/1')).toBe(true)
    expect(server.meet({})).toBe(true)
    expect(server.answered('1/1')).toBe(true)
  })

  test('is another one when it tells something else, also behind the same connection', () => {
    const server = new KnownServer()
    const connection = {}
    server.meet(connection)
    server.answered('1/1')
    expect(server.meet(connection)).toBe(true)
    expect(server.answered('1/2')).toBe(false)
    expect(server.answered('1/2')).toBe(true)
  })
})

describe('a server that cannot tell', () => {
  test('may be another one behind every new connection, and only there', () => {
    const server = new KnownServer()
    const connection = {}
    server.meet(connection)
    expect(server.answered('')).toBe(true)
    expect(server.meet(connection)).toBe(true)
    expect(server.meet({})).toBe(false)
    expect(server.answered('')).toBe(true)
  })
})
