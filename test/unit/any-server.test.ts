import { expect, test } from 'vitest'
import { anyServer } from '../../src/relay/any-server.ts'

const never = new AbortController().signal
const addressOf = (server: string) => `${server}:1`
const refuse = async (server: string) => {
  throw new Error(`${server} is not there`)
}

test('the servers are named as they were given, whichever was tried first', async () => {
  for (const random of [0, 0.4, 0.9]) {
    const connected = anyServer(['a', 'b', 'c'], { connect: refuse, addressOf, signal: never, random: () => random })
    await expect(connected).rejects.toThrow(/^a:1: a is not there; b:1: b is not there; c:1: c is not there$/)
  }
})

test('a server that answers is enough, and no other is tried when nobody waits any more', async () => {
  const connect = (server: string) => (server === 'c' ? Promise.resolve(server) : refuse(server))
  expect(await anyServer(['a', 'b', 'c'], { connect, addressOf, signal: never, random: () => 0 })).toBe('c')
  const waiting = new AbortController()
  const tried: string[] = []
  const give = async (server: string) => {
    tried.push(server)
    waiting.abort()
    return refuse(server)
  }
  const connected = anyServer(['a', 'b'], { connect: give, addressOf, signal: waiting.signal, random: () => 0 })
  await expect(connected).rejects.toThrow(/^a:1: a is not there$/)
  expect(tried).toEqual(['a'])
})
