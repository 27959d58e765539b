import { expect, test } from 'vitest'
import { anyServer } from '../../../src/relay/any-server.ts'

const never = new AbortController().signal
const addressOf = (server: string) => `${server}:1`
const refuse = async (server: string): Promise<{ close(): Promise<void> }> => {
  throw new Error(`${server} is not there`)
}

test('the servers are named as they were given, whichever was tried first', async () => {
  for (const random of [0, 0.4, 0.9]) {
    const connected = anyServer(['a', 'b', 'c'], { connect: refuse, addressOf, signal: never, random: () => random })
    await expect(connected).rejects.toThrow(/^a:1: a is not there; b:1: b is not there; c:1: c is not there$/)
  }
})

test('a server that answers is enough, and no other is tried when nobody waits any more', async () => {
  const given = { close: async () => undefined }
  const connect = (server: string) => (server === 'c' ? Promise.resolve(given) : refuse(server))
  expect(await anyServer(['a', 'b', 'c'], { connect, addressOf, signal: never, random: () => 0 })).toBe(given)
  const waiting = new AbortController()
  const tried: string[] = []
  const give = (server: string) => {
    tried.push(server)
    const refused = refuse(server)
    refused.catch(() => waiting.abort())
    return refused
  }
  const connected = anyServer(['a', 'b'], { connect: give, addressOf, signal: waiting.signal, random: () => 0 })
  await expect(connected).rejects.toThrow(/^a:1: a is not there$/)
  expect(tried).toEqual(['a'])
})

test('a server that says nothing until nobody waits any more is named, and what it gives later is closed', async () => {
  const waiting = new AbortController()
  const late = Promise.withResolvers<{ close(): Promise<void> }>()
  const connect = (server: string) => {
    if (server === 'a') return refuse(server)
    waiting.abort()
    return late.promise
  }
  const connected = anyServer(['a', 'b', 'c'], { connect, addressOf, signal: waiting.signal, random: () => 0 })
  await expect(connected).rejects.toThrow(/^a:1: a is not there; b:1: no connection in time$/)
  const closed = Promise.withResolvers<void>()
  late.resolve({ close: async () => closed.resolve() })
  await closed.promise
})
