import { beforeEach, describe, expect, test } from 'vitest'
import { KnownServer } from '../../../src/claim/known-server.ts'

let others: number
let server: KnownServer

beforeEach(() => {
  others = 0
  server = new KnownServer(() => {
    others += 1
  })
})

/** A claim that is alone in flight. */
function claim(memory: string): boolean {
  return server.answered(memory, server.memory)
}

describe('a server that tells what it is known by', () => {
  test('is known behind every new connection', () => {
    for (let at = 0; at < 2; at++) {
      server.meet({})
      expect(claim('1/1')).toBe(true)
    }
    expect(others).toBe(0)
  })

  test('is another one when it tells something else, also behind the same connection', () => {
    const connection = {}
    server.meet(connection)
    expect(claim('1/1')).toBe(true)
    server.meet(connection)
    expect([claim('1/2'), others]).toEqual([false, 1])
    expect([claim('1/2'), others]).toEqual([true, 1])
  })

  test('is another one to all claims that were in flight when it changed, and forgets once', () => {
    claim('1/1')
    const known = server.memory
    expect([server.answered('1/2', known), others]).toEqual([false, 1])
    expect([server.answered('1/2', known), others]).toEqual([false, 1])
    expect([claim('1/2'), others]).toEqual([true, 1])
  })

  test('is not taken for the one before whose answer comes late', () => {
    claim('1/1')
    const known = server.memory
    server.answered('1/2', known)
    expect(server.answered('1/1', known)).toBe(true)
    expect([claim('1/2'), others]).toEqual([true, 1])
  })

  test('is another one if it changes between the first answers, when nothing was known yet', () => {
    expect(server.answered('1/1', undefined)).toBe(true)
    expect([server.answered('1/2', undefined), others]).toEqual([true, 1])
    expect([claim('1/2'), others]).toEqual([true, 1])
  })
})

describe('a server that cannot tell', () => {
  test('may be another one behind every new connection, and only there', () => {
    const connection = {}
    server.meet(connection)
    expect(claim('')).toBe(true)
    server.meet(connection)
    expect(others).toBe(0)
    server.meet({})
    expect(others).toBe(1)
    expect([claim(''), others]).toEqual([true, 1])
  })
})
